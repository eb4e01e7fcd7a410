"""A schedule of a cell as a picture and as a table, and all schedules as a list."""

from typing import Any, NamedTuple

from lab.exceptions import NotFound
from lab.recordings.cells import READ_COMMITTED
from lab.recordings.recording import RecordedSchedule, Recording, ScheduleEnd
from pginterleave.picture.cells import HOLDS, SIGNS, HowItEnds, Picture, judge_end
from pginterleave.picture.context import draw_pictures, make_table
from pginterleave.picture.history import cut_steps, find_locks, find_waits
from pginterleave.picture.wording import RecordedStep, word_steps

MAX_LINES = 3  # in the list of schedules on a laptop
LINE_WIDTH = 140  # characters
OUTCOME_WIDTH = 30
FRAME_WIDTH = 3  # around a schedule
MORE_WIDTH = 10  # of the button for more schedules


class ChosenSchedule(NamedTuple):
    """A recording, and the schedule to show with its number from 0."""

    recording: Recording
    number: int
    schedule: RecordedSchedule


def choose_schedule(recording: Recording, order: str) -> ChosenSchedule:
    """Return the schedule with this order; raise NotFound if it is not recorded.

    Without an order, return the counterexample or, if that is not recorded, the first schedule.
    """
    orders = [end.order for end in recording.ends]
    if order and order not in orders:
        raise make_not_found(order, recording)
    wanted = order or recording.counterexample
    number = orders.index(wanted) if wanted in orders else 0
    return ChosenSchedule(recording, number, recording.schedule(number))


def find_first_schedule(recording: Recording, taken: str) -> ChosenSchedule:
    """Return the first schedule that begins with the steps `taken`; raise NotFound."""
    for number, end in enumerate(recording.ends):
        if begins_with(end.order, taken):
            return ChosenSchedule(recording, number, recording.schedule(number))
    raise make_not_found(taken, recording)


def make_not_found(order: str, recording: Recording) -> NotFound:
    """Return the error for a schedule that the recording does not have; it names the first."""
    example = recording.ends[0].order
    return NotFound(f"There is no recorded schedule {order[:50]!r}; {example} is one.")


def begins_with(order: str, taken: str) -> bool:
    """Return whether an order begins with the steps `taken`; "2" is another step than "2a"."""
    return order.startswith(taken) and not order.removeprefix(taken)[:1].isalpha()


def make_neighbour_context(chosen: ChosenSchedule) -> dict[str, Any]:
    """Return the number of a schedule, and the orders of those to which its page links."""
    ends = chosen.recording.ends
    number = chosen.number
    following = ends[number + 1 :] + ends[:number]  # after the last schedule comes the first
    violating = (end.order for end in following if end.verdict.kind != HOLDS)
    return {
        "number": number + 1,
        "previous": ends[number - 1].order if number else None,
        "next": ends[number + 1].order if number + 1 < len(ends) else None,
        "next_violating": next(violating, None),
    }


class Group(NamedTuple):
    """The orders with one outcome: those that the page lists at once, and `more` of them."""

    verdict: HowItEnds
    listed: list[str]
    more: list[str]

    @property
    def size(self) -> int:
        return len(self.listed) + len(self.more)


def group_by_outcome(ends: list[ScheduleEnd], current: str) -> list[Group]:
    """Return the schedules grouped by outcome: wrong ones, refused ones, and those that hold.

    The list has at most MAX_LINES lines, so the picture below it begins at about one height.
    """
    orders_by_outcome: dict[HowItEnds, list[str]] = {}
    for order, outcome in ends:
        orders_by_outcome.setdefault(outcome, []).append(order)
    lines = max(1, MAX_LINES // len(orders_by_outcome))
    groups = []
    for outcome, orders in orders_by_outcome.items():
        listed = orders[: count_fitting(orders, lines)]
        if current in orders and current not in listed:
            listed[-1] = current  # the list has the schedule that the page shows
        more = [order for order in orders if order not in listed]
        groups.append(Group(outcome, listed, more))
    kinds = list(SIGNS)
    return sorted(groups, key=lambda group: (kinds.index(group.verdict.kind), -group.size))


def count_fitting(orders: list[str], lines: int) -> int:
    """Return how many schedules fit into the lines after the outcome.

    If not all do, a button for more of them follows.
    """
    width = max(map(len, orders)) + FRAME_WIDTH
    room = lines * LINE_WIDTH - OUTCOME_WIDTH
    if len(orders) * width > room:
        room -= MORE_WIDTH
    return max(1, room // width)


def make_schedule_context(chosen: ChosenSchedule, hidden_after: int | None) -> dict[str, Any]:
    """Return the pictures and the table of a schedule, up to step `hidden_after` if it is set."""
    schedule = chosen.schedule
    taken = len(schedule.steps) if hidden_after is None else hidden_after
    hidden = "".join(str(step["process"]) for step in schedule.steps[taken:])
    picture = make_picture(chosen.recording, schedule, taken, hidden)
    description = f"Schedule {schedule.order}, step by step; the table below says the same"
    return {
        **draw_pictures(picture, description),
        **make_table(picture),
        "verdict": picture.verdict,
        "predict": hidden_after,
        "last_value": picture.last_value,
        "last": schedule.all_steps[-1]["observed"],
        "halfway": len(schedule.steps) // 2,
        "raised": [
            (process, outcome)
            for process, outcome in enumerate(schedule.outcomes, start=1)
            if outcome and picture.is_whole
        ],
    }


def make_picture(
    recording: Recording, schedule: RecordedSchedule, taken: int, hidden: str = ""
) -> Picture:
    """Return what the pictures of the first `taken` steps are drawn from.

    After the last step the second tries are drawn, too. `hidden` has the processes of the steps
    that the picture only announces.
    """
    ended = taken == len(schedule.steps)
    shown = schedule.all_steps if ended else cut_steps(schedule.steps, taken)
    cell = recording.cell
    return Picture(
        all_steps=schedule.all_steps,
        steps=shown,
        processes=cell.processes,
        initial=recording.initial,
        verdict=judge_end(schedule.violation, raises=schedule.raises, due=cell.race.invariant),
        outcomes=schedule.outcomes,
        hidden=hidden,
        snapshots=cell.level != READ_COMMITTED,
    )


def list_moments(steps: list[RecordedStep]) -> list[dict[str, Any]]:
    """Return what each step of a schedule does, and the locks and waits after it.

    The first in the `queue` waits longest.
    """
    locks = find_locks(steps)
    waits = find_waits(steps)
    moments = []
    for number, words in enumerate(word_steps(steps), start=1):
        step = steps[number - 1]
        moments.append(
            {
                "number": number,
                "process": step["process"],
                # A step that has to wait has not returned yet.
                "sentence": words.sent if step["waited_for"] else str(words),
                "locks": [lock for lock in locks if lock.first <= number < lock.last],
                "queue": [wait for wait in waits if wait.first <= number < wait.last],
            }
        )
    return moments
