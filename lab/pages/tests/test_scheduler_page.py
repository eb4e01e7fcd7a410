"""The pages of explored schedules: the visitor as the scheduler, and the queue of locks."""

import re
from typing import Any

import pytest
from django.test import Client

from lab.conftest import NAIVE, Kept, get, store
from lab.exploring import explorer
from lab.exploring.explored import KeptSchedule
from lab.exploring.jobs import jobs_named
from lab.pages.decisions import each_step
from lab.pages.equivalence import begun, independent
from lab.scratch_database import scratch_database

pytestmark = pytest.mark.django_db
SCHEDULER = f"{NAIVE}scheduler/"
DEADLOCK = "crossed_locks/update_returning"
CHOICE = re.compile(r'data-key="\w" href="\?taken=(\w+)"')


def walk(client: Client, path: str, taken: str = "") -> list[str]:
    """Return all orders that the links of the page lead to."""
    page = get(client, f"{path}?taken={taken}")
    following = CHOICE.findall(page)
    if not following:
        assert "orders violate the invariant" in page
        return [taken]
    assert "orders violate" not in page
    assert 'class="conflict' not in page.replace("conflict cycle", "")  # a deadlock is shown
    assert "verdict-box" not in page
    return [order for each in following for order in walk(client, path, each)]


def test_the_links_lead_to_every_schedule_and_to_no_other(
    client: Client, stored: dict[str, Kept]
) -> None:
    for what in ("lost_update/naive", "lost_update/select_for_update", DEADLOCK):
        orders = sorted(each.order for each in stored[what].schedules)
        assert walk(client, f"/lab/races/{what}/2/scheduler/") == orders


def test_the_last_step_shows_the_verdict(client: Client, stored: dict[str, Kept]) -> None:
    kept = stored["lost_update/naive"]
    schedule = kept.first("1S 2S 1U 2U")
    page = get(client, f"{SCHEDULER}?taken={schedule.order}")
    assert f"Violated: {schedule.violation}" in page
    count = f"{kept.explored.violating} of all {kept.explored.schedules} orders violate"
    assert count in page
    assert page.count('class="conflict lost"') == 2
    assert f'href="{NAIVE}?schedule={schedule.order}"' in page
    before = get(client, f"{SCHEDULER}?taken={schedule.order[:-1]}")
    assert "hits = 1, not 2" not in before
    assert "two hits, counted once" not in before  # the docstring, which reveals the result


def test_a_waiting_process_cannot_go(client: Client, stored: dict[str, Kept]) -> None:
    page = get(client, "/lab/races/lost_update/select_for_update/2/scheduler/?taken=12")
    assert CHOICE.findall(page) == ["121"]
    assert '<span class="blocked">process 2 waits for process 1</span>' in page
    assert "Process 2 wants to lock a, and waits for process 1." in page
    page = get(client, "/lab/races/lost_update/select_for_update/2/scheduler/?taken=111")
    assert '<span class="blocked">process 1 has ended</span>' in page


def test_the_victim_of_a_deadlock_can_be_chosen(client: Client, stored: dict[str, Kept]) -> None:
    scheduler = f"/lab/races/{DEADLOCK}/2/scheduler/"
    page = get(client, f"{scheduler}?taken=121")
    assert CHOICE.findall(page) == ["1212", "1212a"]
    for process in 1, 2:
        assert f"closes a deadlock that ends process {process}</a>" in page
    ended = get(client, f"{scheduler}?taken=1212a")
    assert ">process 2</a>" in ended
    assert 'href="?taken=121">one step back' in ended
    assert client.get(f"{scheduler}?taken=121a").status_code == 404


def test_orders_that_reduction_left_out_are_derived_from_those_that_ran(
    client: Client, stored: dict[str, Kept]
) -> None:
    """As in a race with so many schedules that only different ones run."""
    kept = stored["lost_update/naive"]
    left_out = {each.order for each in kept.schedules if not ran_with_reduction(each)}
    assert left_out
    store(kept.explored, **without(kept, left_out))
    orders = walk(client, SCHEDULER)
    assert orders == sorted(each.order for each in kept.schedules)
    for schedule in kept.schedules:
        page = get(client, f"{SCHEDULER}?taken={schedule.order}")
        assert ("Violated: " in page) is bool(schedule.violation)
        assert ("the equivalent schedule" in page) is (schedule.order in left_out)
    assert f"Of all {kept.explored.schedules} orders, " in get(client, SCHEDULER)


def without(kept: Kept, orders: set[str]) -> dict[str, Any]:
    """Return the changes of an exploration in which these orders have not run."""
    both = zip(kept.explored.orders, kept.explored.kept, strict=True)
    left = [(order, whole) for order, whole in both if order[0] not in orders]
    return {
        "orders": [order for order, _ in left],
        "kept": [whole for _, whole in left],
        "ran": len(left),
    }


def ran_with_reduction(schedule: KeptSchedule) -> bool:
    """Return whether no step of process 2 is followed by an independent step of process 1."""
    pairs = zip(schedule.steps, schedule.steps[1:], strict=False)
    return not any(
        independent(one, two, serializable=False) and one["process"] > two["process"]
        for one, two in pairs
    )


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "what",
    [
        "bare_save/as_found",
        "toctou_in_a_transaction/savepoint",
        "next_id_written_back/as_found",
    ],
)
def test_equivalence_completes_the_schedules_that_ran(
    what: str, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any
) -> None:
    """The numbers of orders and violations are those of the explorer without reduction."""
    monkeypatch.setattr(explorer, "FEW", 0)
    with django_db_blocker.unblock(), scratch_database():
        job = jobs_named(what)[0]
        found = explorer.run(job)
        every = job.race.explore(job.strategy, 2, max_seconds=600, max_schedules=20_000)
    ran = Kept(found).schedules
    assert len(ran) < found.schedules == every.schedules
    for schedule in ran:
        for step, name in zip(schedule.steps, each_step(schedule.order), strict=True):
            step["name"] = name

    def count(taken: list[str], candidates: list[KeptSchedule]) -> tuple[int, int]:
        if any(len(each.steps) == len(taken) for each in candidates):
            (violates,) = {bool(each.violation) for each in candidates}
            return 1, violates
        counts = []
        for name in ("1", "1b", "2", "2a"):
            left = [
                each
                for each in candidates
                if begun(each.steps, [*taken, name], found.initial, serializable=False)
            ]
            counts += [count([*taken, name], left)] if left else []
        return sum(every for every, _ in counts), sum(violating for _, violating in counts)

    assert count([], ran) == (every.schedules, every.violating)


def test_a_truncated_search_says_what_was_not_explored(
    client: Client, stored: dict[str, Kept]
) -> None:
    kept = stored["lost_update/naive"]
    second = {each.order for each in kept.schedules if each.order.startswith("2")}
    store(kept.explored, **without(kept, second), truncated="max_schedules=7 reached")
    page = get(client, SCHEDULER)
    assert CHOICE.findall(page) == ["1"]
    assert "process 2 was not explored from here" in page


def test_an_unexplored_order_is_refused(client: Client, stored: dict[str, Kept]) -> None:
    assert client.get(f"{SCHEDULER}?taken=3").status_code == 404
    assert client.get(f"{SCHEDULER}?taken=%00").status_code == 404
    assert "?level=serializable&amp;taken=1" in get(client, f"{SCHEDULER}?level=serializable")


def test_the_queue_shows_the_locks_of_postgresql(client: Client, stored: dict[str, Kept]) -> None:
    page = get(client, "/lab/queue/")
    rows = page.split('class="matrix queue"')[1].split("</table>")[0].split("<tr ")[1:]
    third = [re.sub(r"<.*?>", " ", cell).split() for cell in rows[2].split("<td>")[1:]]
    assert third == [
        ["3:", "lock", "a"],
        ["process", "1:", "FOR", "UPDATE", "on", "a"],
        ["1.", "process", "2", "2.", "process", "3"],
    ]
    assert [row.count("1. process") for row in rows] == [0, 1, 1, 1, 1, 1, 0, 0, 0]
    locks = page.split('id="locks-3"')[1].split("</table>")[0]
    waiting = locks.split('<tr class="waiting">')[1:]
    assert ["transaction of process 1" in row for row in waiting] == [True, False]
    assert [re.findall(r"<td>(\d)</td>", row) for row in waiting] == [["1"], ["2"]]
