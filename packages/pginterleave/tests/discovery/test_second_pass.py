"""What the second pass makes of wrong schedules that do not run again as they ran."""

from typing import Any

from pginterleave import Exploration, Outcome, Schedule
from pginterleave.discovery.candidates import Candidate, Traffic
from pginterleave.discovery.findings import Discovery, Explored
from pginterleave.discovery.report import MAX_LINES, Accepted, write_report
from pginterleave.discovery.undoing import Update, describe_undoing
from pginterleave.discovery.visits import Known, find_wrong_schedules
from pginterleave.explorer_errors import ImpossibleSchedule


def make_schedule(order: str, *answers: str, violation: str = "", raises: bool = False) -> Schedule:
    outcomes = tuple(Outcome(returned=answer) for answer in answers)
    return Schedule(order, (), outcomes, violation, raises)


class PlaceInTest:
    """A `Visit` of which it is known how each schedule ends when it runs again."""

    def __init__(self, again: dict[str, Exception | str]) -> None:
        self.again = again
        self.replayed: list[str] = []

    def replay(self, _: object, order: str) -> Schedule:
        self.replayed.append(order)
        return make_schedule(order, violation=self._run(order))

    def replay_rows(self, _: object, order: str, **options: object) -> str:
        text = self._run(order)
        return text if text.startswith("rows") else ""

    def _run(self, order: str) -> str:
        again = self.again[order]
        if isinstance(again, Exception):
            raise again
        return again


CANDIDATE = Candidate("POST a", lambda: "200")
KNOWN = Known(CANDIDATE, "t", Traffic("POST a", "200", ()), updates=[], fails=False)


def test_an_error_in_one_schedule_costs_no_other_race() -> None:
    """What judge() has run once more is not run a third time."""
    wrong = (
        make_schedule("1212", "", violation="process 1 raises KeyError: 1.", raises=True),
        make_schedule("1221", "200", "200", violation="rows differ"),
        make_schedule("2112", "200", "201", violation="process 2 returned 201"),
        make_schedule("2121", "200", "200", violation="both returned '200'"),
    )
    exploration = Exploration(orders=(), violations=wrong, schedules=6, violating=4, truncated="")
    again: dict[str, Any] = {
        "1212": ImpossibleSchedule("Step 2 cannot be taken.\nMore."),
        "1221": "rows differ",
        "2112": "",
        "2121": "both",
    }
    place: Any = PlaceInTest(again)
    confirmed, unconfirmed = find_wrong_schedules(place, (KNOWN, KNOWN), exploration)
    assert [(each.kind, each.schedule.order) for each in confirmed] == [
        ("rows", "1221"),
        ("twice", "2121"),
    ]
    of_error, of_right = sorted(unconfirmed)
    happened = "When it runs again, ImpossibleSchedule: Step 2 cannot be taken."
    assert of_error.startswith(f"1212: process 1 raises KeyError: 1. {happened}")
    assert of_right == "2112: process 2 returned 201. When it runs again, it is right"
    assert sorted(place.replayed) == ["1212", "2112", "2121"]


def test_every_schedule_that_was_wrong_once_is_reported() -> None:
    number = 2 * MAX_LINES
    lines = [f"12{n}: both returned '200'. When it runs again, it is right" for n in range(number)]
    explored = [Explored(names=["a", "b"], tests=["t"], unconfirmed=[line]) for line in lines]
    report = [*write_report(Discovery(explored=explored), Accepted([]), verbosity=0)]
    assert report[-number:] == [f"Not confirmed: a beside b {line}" for line in lines]


def test_a_whole_row_save_of_the_admin_has_no_line() -> None:
    form = Update("POST admin", "item", frozenset("a"), frozenset("b"), where="")
    view = Update("POST view", "item", frozenset("b"), frozenset(), where="views.py:1")
    [line] = describe_undoing([form, view], [])
    assert line == (
        "POST admin saves item with the b that it has read, and POST view changes that (views.py:1)"
    )


def test_the_lines_that_are_left_out_are_counted() -> None:
    explored = [Explored(names=["a"], tests=["t"], reason="late") for _ in range(MAX_LINES + 3)]
    results = Discovery(explored=explored)
    report = [*write_report(results, Accepted([]), verbosity=0)]
    assert report[-2:] == ["Not decided: a: late", "… and 3 more such lines; -v lists them."]
    assert [*write_report(results, Accepted([]), verbosity=1)].count(report[-2]) == MAX_LINES + 3
