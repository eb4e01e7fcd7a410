"""The pages of recorded schedules: the visitor as the scheduler, and the queue of locks."""

import re

from django.test import Client

from lab.conftest import NAIVE, find_first_schedule, get_page, list_schedules, read_recorded

SCHEDULER = f"{NAIVE}scheduler/"
DEADLOCK = "crossed_locks/update_returning"
CHOICE = re.compile(r'data-key="\w" href="\?taken=(\w+)"')


def walk(client: Client, path: str, taken: str = "") -> list[str]:
    """Return all orders that the links of the page lead to."""
    page = get_page(client, f"{path}?taken={taken}")
    following = CHOICE.findall(page)
    if not following:
        assert "orders violate the invariant" in page
        return [taken]
    assert "orders violate" not in page
    assert 'class="conflict' not in page.replace("conflict cycle", "")  # a deadlock is shown
    assert "verdict-box" not in page
    return [order for begun in following for order in walk(client, path, begun)]


def test_the_links_lead_to_every_schedule_and_to_no_other(client: Client) -> None:
    for what in ("lost_update/naive", "lost_update/select_for_update", DEADLOCK):
        orders = sorted(schedule.order for schedule in list_schedules(read_recorded(what)))
        assert walk(client, f"/lab/races/{what}/2/scheduler/") == orders


def test_the_last_step_shows_the_verdict(client: Client) -> None:
    kept = read_recorded("lost_update/naive")
    schedule = find_first_schedule(kept, "1S 2S 1U 2U")
    page = get_page(client, f"{SCHEDULER}?taken={schedule.order}")
    assert f"Violated: {schedule.violation}" in page
    count = f"{kept.count.violating} of all {kept.count.schedules} orders violate"
    assert count in page
    assert page.count('class="conflict lost"') == 2
    assert f'href="{NAIVE}?schedule={schedule.order}"' in page
    before = get_page(client, f"{SCHEDULER}?taken={schedule.order[:-1]}")
    assert "hits = 1, not 2" not in before
    assert "two hits, counted once" not in before  # the docstring, which reveals the result


def test_a_waiting_process_cannot_go(client: Client) -> None:
    page = get_page(client, "/lab/races/lost_update/select_for_update/2/scheduler/?taken=12")
    assert CHOICE.findall(page) == ["121"]
    assert '<span class="blocked">process 2 waits for process 1</span>' in page
    assert "Process 2 wants to lock a, and waits for process 1." in page
    page = get_page(client, "/lab/races/lost_update/select_for_update/2/scheduler/?taken=111")
    assert '<span class="blocked">process 1 has ended</span>' in page


def test_the_victim_of_a_deadlock_can_be_chosen(client: Client) -> None:
    scheduler = f"/lab/races/{DEADLOCK}/2/scheduler/"
    page = get_page(client, f"{scheduler}?taken=121")
    assert CHOICE.findall(page) == ["1212", "1212a"]
    for process in 1, 2:
        assert f"closes a deadlock that ends process {process}</a>" in page
    ended = get_page(client, f"{scheduler}?taken=1212a")
    assert ">process 2</a>" in ended
    assert 'href="?taken=121">one step back' in ended
    assert client.get(f"{scheduler}?taken=121a").status_code == 404


def test_an_order_beyond_the_recorded_ones_cannot_be_chosen(client: Client) -> None:
    """Recorded are the schedules with the fewest preemptions; a deeper one leads nowhere."""
    kept = read_recorded("crossed_locks/select_for_update")
    assert not kept.is_complete
    path = "/lab/races/crossed_locks/select_for_update/2/scheduler/"
    assert "Recorded are 100 orders" in get_page(client, path)
    orders = [ended.order for ended in kept.ends]
    taken = next(
        order[:length]
        for order in orders
        for length in range(1, len(order))
        if "was not recorded from here" in get_page(client, f"{path}?taken={order[:length]}")
    )
    assert any(order.startswith(taken) for order in orders)


def test_an_unexplored_order_is_refused(client: Client) -> None:
    assert client.get(f"{SCHEDULER}?taken=3").status_code == 404
    assert client.get(f"{SCHEDULER}?taken=%00").status_code == 404
    assert "?level=serializable&amp;taken=1" in get_page(client, f"{SCHEDULER}?level=serializable")


def test_the_queue_shows_the_locks_of_postgresql(client: Client) -> None:
    page = get_page(client, "/lab/queue/")
    rows = page.split('class="matrix queue"')[1].split("</table>")[0].split("<tr ")[1:]
    third = [re.sub(r"<.*?>", " ", cell).split() for cell in rows[2].split("<td>")[1:]]
    assert third == [
        ["3:", "lock", "a"],
        ["process", "1:", "FOR", "UPDATE", "on", "a"],
        ["1.", "process", "2", "2.", "process", "3"],
    ]
    assert [row.count("1. process") for row in rows] == [0, 1, 1, 1, 1, 1, 0, 0, 0]
