"""The pages of recorded schedules: the visitor as the scheduler, and the queue of locks."""

import re

from django.test import Client

from lab.conftest import NAIVE_PATH, find_schedule, get_page, list_schedules, read_recorded

SCHEDULER = f"{NAIVE_PATH}scheduler/"
DEADLOCK = "crossed_locks/update_returning"
CHOICE = re.compile(r'data-key="\w"[^>]* href="\?taken=(\w+)"')


def list_orders(client: Client, path: str, taken: str = "") -> list[str]:
    """Follow all links from the page after the steps `taken`; return the orders at their ends.

    Check that no page but the last ones reveals how a schedule ends.
    """
    page = get_page(client, f"{path}?taken={taken}")
    choices = CHOICE.findall(page)
    if not choices:
        assert "orders violate the invariant" in page
        return [taken]
    assert "orders violate" not in page
    assert 'class="conflict' not in page.replace("conflict cycle", "")  # a deadlock is shown
    assert "verdict-box" not in page
    orders = []
    for choice in choices:
        orders += list_orders(client, path, choice)
    return orders


def test_the_links_lead_to_every_schedule_and_to_no_other(client: Client) -> None:
    for cell in ("lost_update/naive", "lost_update/select_for_update", DEADLOCK):
        orders = sorted(schedule.order for schedule in list_schedules(read_recorded(cell)))
        assert list_orders(client, f"/lab/races/{cell}/2/scheduler/") == orders


def test_the_last_step_shows_the_verdict_and_the_step_before_does_not(client: Client) -> None:
    recording = read_recorded("lost_update/naive")
    schedule = find_schedule(recording, "121122")
    page = get_page(client, f"{SCHEDULER}?taken={schedule.order}")
    assert f"Violated: {schedule.violation}" in page
    assert f"{recording.count.violating} of all {recording.count.schedules} orders violate" in page
    assert page.count('class="conflict lost"') == 2  # in a wide and in a narrow picture
    assert f'href="{NAIVE_PATH}?schedule={schedule.order}"' in page
    before = get_page(client, f"{SCHEDULER}?taken={schedule.order[:-1]}")
    assert "hits = 1, not 2" not in before
    assert "two hits, counted once" not in before  # the docstring, which reveals the result


def test_the_end_offers_the_first_right_strategy_with_the_same_steps(client: Client) -> None:
    """As far as it has them: process 2 of select_for_update waits in its first step."""
    right = "/lab/races/lost_update/select_for_update/2/scheduler/"
    for taken, begun in (("121122", "121122"), ("122211", "12")):
        page = get_page(client, f"{SCHEDULER}?taken={taken}")
        link = f'href="{right}?taken={begun}">the same steps with select_for_update'
        assert (taken, link in page) == (taken, True)
        assert client.get(f"{right}?taken={begun}").status_code == 200
    assert "the same steps" not in get_page(client, f"{SCHEDULER}?taken=12112")
    assert "the same steps" not in get_page(client, f"{right}?taken=121122")


def test_a_process_that_waits_or_has_ended_cannot_be_chosen(client: Client) -> None:
    page = get_page(client, "/lab/races/lost_update/select_for_update/2/scheduler/?taken=12")
    assert CHOICE.findall(page) == ["121"]
    assert '<span class="blocked">process 2 waits for process 1' in page
    assert "Process 2 wants to lock a, and waits for process 1." in page
    assert "autofocus" not in get_page(client, SCHEDULER)  # but only after a step
    page = get_page(client, f"{SCHEDULER}?taken=12")
    assert 'data-key="2" autofocus aria-describedby="told"' in page
    assert re.search(r'P1 P2</span><span class="number">\d+</span> short_url = ', page)
    page = get_page(client, "/lab/races/lost_update/select_for_update/2/scheduler/?taken=111")
    assert '<span class="blocked">process 1 has ended' in page


def test_the_victim_of_a_deadlock_can_be_chosen(client: Client) -> None:
    """With the step `2` process 2 is the victim itself, and with `2a` process 1 is."""
    scheduler = f"/lab/races/{DEADLOCK}/2/scheduler/"
    page = get_page(client, f"{scheduler}?taken=121")
    assert CHOICE.findall(page) == ["1212", "1212a"]
    for process in 1, 2:
        assert f"closes a deadlock that ends process {process}" in page
    ended = get_page(client, f"{scheduler}?taken=1212a")
    assert "1212a2" in CHOICE.findall(ended)
    assert 'taken=121">one step back' in ended
    assert client.get(f"{scheduler}?taken=121a").status_code == 404  # it closes no deadlock


def test_an_order_beyond_the_recorded_ones_cannot_be_chosen(client: Client) -> None:
    """Recorded are the schedules with the fewest preemptions; a deeper one leads nowhere."""
    recording = read_recorded("crossed_locks/select_for_update")
    assert not recording.is_complete
    path = "/lab/races/crossed_locks/select_for_update/2/scheduler/"
    assert "Recorded are 100 orders" in get_page(client, path)
    assert "Recorded are" not in get_page(client, SCHEDULER)
    beginnings = {
        end.order[:length] for end in recording.ends for length in range(1, len(end.order))
    }
    assert any(
        "was not recorded from here" in get_page(client, f"{path}?taken={taken}")
        for taken in sorted(beginnings)
    )


def test_an_unexplored_order_is_a_404(client: Client) -> None:
    assert client.get(f"{SCHEDULER}?taken=3").status_code == 404  # there is no process 3
    assert client.get(f"{SCHEDULER}?taken=%00").status_code == 404


def test_the_links_keep_the_isolation_level(client: Client) -> None:
    page = get_page(client, f"{SCHEDULER}?level=serializable")
    assert "?level=serializable&amp;taken=1" in page
    assert f'href="{NAIVE_PATH}?level=serializable">Lost update with naive<' in page
    page = get_page(client, f"{SCHEDULER}?level=serializable&taken=121122")
    assert f'href="{NAIVE_PATH}?level=serializable&amp;schedule=121122"' in page
    assert "?level=serializable&amp;back=1&amp;taken=12112" in page
    assert 'href="?level=serializable&amp;taken=">start again' in page


def test_the_queue_shows_who_holds_and_who_awaits_a_lock_after_each_step(client: Client) -> None:
    """Processes 1, 2 and 3 lock the row a in this order, and then each updates and commits."""
    page = get_page(client, "/lab/queue/")
    table = page.split('class="matrix queue"')[1]
    # The texts of the rows, without tags.
    _head, *steps = [re.sub(r"[\s>]*<.*?>\s*|\s+", " ", row) for row in table.split("<tr ")]
    assert "3: lock a" in steps[2]  # the step of process 3
    assert steps[2].index("process 1: FOR UPDATE on a") < steps[2].index("1. process 2")
    assert "2. process 3" in steps[2]
    assert ["none" in step for step in (steps[0], steps[2], steps[-1])] == [True, False, True]
    holds = ["process 1: FOR UPDATE on a" in step for step in steps]
    assert holds == [True] * 4 + [False] * 5  # until process 1 commits in step 5
    has_queue = ["1. process" in step for step in steps]
    assert has_queue == [False] + [True] * 5 + [False] * 3  # until process 3 gets the row in step 7
    assert "/lost_update/select_for_update/3/?schedule=123" in table
