"""What the second pass makes of explorations, and of wrong schedules that do not run again."""

from dataclasses import replace
from typing import Any

import pytest

from pginterleave import CannotExplore, Exploration, Outcome, Schedule, Step
from pginterleave.discovery import second_pass
from pginterleave.discovery.candidates import Candidate, Traffic
from pginterleave.discovery.findings import Discovery, Explored
from pginterleave.discovery.report import MAX_LINES, Accepted, write_report
from pginterleave.discovery.second_pass import Round, SecondPass, write_command
from pginterleave.discovery.surroundings import WaitLimit
from pginterleave.discovery.undoing import Update, describe_undoing, list_updates
from pginterleave.discovery.visits import Known, find_wrong_schedules, judge
from pginterleave.explorer_errors import ImpossibleSchedule


def make_schedule(order: str, *answers: str, violation: str = "", raises: bool = False) -> Schedule:
    outcomes = tuple(Outcome(returned=answer) for answer in answers)
    return Schedule(order, (), outcomes, violation, raises)


class PlaceInTest:
    """A `Visit` of which it is known how each schedule ends when it runs again."""

    def __init__(
        self, again: dict[str, Exception | str], exploration: Exploration | None = None
    ) -> None:
        self.again = again
        self.exploration = exploration
        self.replayed: list[str] = []
        self.limits: list[dict[str, Any]] = []  # of each exploration

    def put_back(self) -> None: ...

    def run_alone(self, candidate: Candidate, test: str) -> Known:
        return replace(KNOWN, candidate=candidate, test=test)

    def explore(self, _: object, **limits: Any) -> Exploration:
        self.limits.append(limits)
        if self.exploration is None:
            raise CannotExplore("It cannot be explored.")
        return self.exploration

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
KNOWN = Known(CANDIDATE, "t", Traffic("POST a", "200", ("UPDATE t SET n = 1",)), [], fails=False)


def make_second_pass(monkeypatch: pytest.MonkeyPatch, place: PlaceInTest) -> SecondPass:
    monkeypatch.setattr(second_pass, "Visit", lambda _: place)
    given: dict[str, Any] = {"replay": "", "replay_names": frozenset(), "requests": 1}
    given |= {"seconds": 7.0, "ends_at": float("inf"), "report_progress": lambda _: None}
    return SecondPass(Discovery(), WaitLimit(60.0), **given)


def explore_in_rounds(monkeypatch: pytest.MonkeyPatch, place: PlaceInTest) -> Discovery:
    """Explore the candidate with one preemption and then with two; return the results."""
    explores = make_second_pass(monkeypatch, place)
    for preemptions in (1, 2):
        explores.begin(Round(False, preemptions), "t", "group", frozenset(("POST a",)))
        explores.explore(CANDIDATE)
    return explores.results


SAFE: dict[str, Any] = {"orders": ("1",), "schedules": 1, "violating": 0, "truncated": ""}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"truncated": "late", "counted_preemptions": 1}, ""),
        ({"truncated": "late", "counted_preemptions": 0}, "The search was truncated: late."),
        ({"truncated": "late", "counted_preemptions": -1}, "The search was truncated: late."),
        ({"unobserved": ("a program",)}, "Statements were sent past the explorer, by a program"),
        ({"unseen_commits": ("CALL a()",)}, "Put what commits within one step into a transaction"),
        ({"unexplored": ("a COMMIT",)}, "By chance PostgreSQL decides a COMMIT"),
        (
            {"serial_failure": make_schedule("1", violation="no row")},
            "one after the other, too: no row",
        ),
        (None, "CannotExplore: It cannot be explored."),
    ],
)
def test_what_is_not_decided_is_not_safe(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any] | None, reason: str
) -> None:
    found = None if facts is None else Exploration(**SAFE | {"serial": True} | facts)
    results = explore_in_rounds(monkeypatch, PlaceInTest({}, found))
    [entry] = results.explored
    assert reason in entry.reason
    assert bool(entry.reason) is bool(reason)
    assert len(results.decided) == results.count_bounds().total() == (not reason)


@pytest.mark.parametrize("counted", [1, None])
def test_what_is_safe_is_explored_again_with_more_preemptions(
    monkeypatch: pytest.MonkeyPatch, counted: int | None
) -> None:
    """Unless every schedule was counted; each exploration has the limits of the options."""
    limits = ("the order of ids",)
    found = Exploration(**SAFE, counted_preemptions=counted, limits=limits)
    place = PlaceInTest({}, found)
    results = explore_in_rounds(monkeypatch, place)
    rounds = [1] if counted is None else [1, 2]
    assert place.limits == [{"max_preemptions": n, "max_seconds": 7.0} for n in rounds]
    bound = " with at most 1 preemption" if counted else ""
    assert results.count_bounds() == {f"in every schedule{bound}": 1}
    assert [entry.limits for entry in results.explored] == [[*limits]]


@pytest.mark.parametrize(
    ("answer", "statement", "fits"),
    [
        ("200", "DELETE FROM t", True),
        ("404", "DELETE FROM t", False),
        ("200", "DELETE FROM u", False),
        ("200", "SELECT n FROM t", False),
    ],
)
def test_a_request_of_another_test_is_explored_where_it_does_the_same(
    monkeypatch: pytest.MonkeyPatch, answer: str, statement: str, fits: bool
) -> None:
    other = Candidate("POST b", lambda: "200")
    there = replace(KNOWN, candidate=other, test="u")
    there = replace(there, traffic=Traffic("POST b", "200", ("DELETE FROM t",)))
    here = replace(there, traffic=Traffic("POST b", answer, (statement,)))
    found = Exploration(**SAFE, counted_preemptions=1)
    assert found.decided
    place = PlaceInTest({}, found)
    monkeypatch.setattr(place, "run_alone", lambda each, test: here if each is other else KNOWN)
    explores = make_second_pass(monkeypatch, place)
    explores.known["group"].append(there)
    explores.begin(Round(True, 1), "t", "group", frozenset(("POST a",)))
    explores.explore(CANDIDATE)
    assert [entry.names for entry in explores.results.explored] == [["POST a", "POST b"]] * fits


@pytest.mark.parametrize(
    ("answers", "rows", "without_refused", "with_mocks", "kind"),
    [
        (("200", "200"), "wrong", "wrong", "", "rows"),
        (("200", "400"), "wrong", "wrong", "", "rows"),
        (("200", "400"), "wrong", "", "", "answers"),  # as if the second had not run
        (("200", "400"), "", "", "a call", "answers"),
        (("200", "200"), "", "", "a call", "twice"),
        (("200", "201"), "", "", "a call", "rows"),
        (("200", "201"), "", "", "", "answers"),
    ],
)
def test_which_kind_of_race_a_wrong_schedule_is(
    answers: tuple[str, str], rows: str, without_refused: str, with_mocks: str, kind: str
) -> None:
    class Place:
        def replay_rows(self, *_: object, **options: Any) -> str:
            if options.get("with_mocks"):
                return with_mocks
            assert options.get("left_out", refused) == refused
            return without_refused if options else rows

    refused = [answer == "400" for answer in answers]
    place: Any = Place()
    wrong = judge(place, (KNOWN, KNOWN), make_schedule("1212", *answers, violation="differs"))
    sentence = rows or with_mocks if kind == "rows" else "differs"
    assert (wrong.kind, wrong.sentence) == (kind, sentence)


def test_the_command_of_a_pair_names_each_call_and_test_once() -> None:
    command = write_command(["shop.use()", "shop.use()"], ["t.py"], "12")
    assert command == "pytest t.py --interleave-calls=shop.use --interleave-replay 'shop.use() 12'"
    command = write_command(["shop.use()", "POST a"], ["t.py"], "12")
    assert "--interleave-calls=shop.use --interleave-requests --interleave-replay" in command
    assert command.endswith("'shop.use() beside POST a 12'")


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


def make_step(number: int, sql: str, *rows: tuple[object, ...], error: str = "") -> Step:
    columns = ("id", "a", "b") if rows else ()
    more: dict[str, Any] = {"until": number, "columns": columns, "rows": rows, "error": error}
    return Step(number, 1, sql.split()[0], sql, None, "views.py", number, "f", **more)


def test_a_save_writes_back_what_the_request_has_read_last_of_its_row() -> None:
    """Not what it has read of another row, and nothing if it fails."""
    select, update = "SELECT id, a, b FROM t", "UPDATE t SET a = 'x', b = 'y' WHERE id = 1"
    read = [make_step(1, select, (1, "x", "?")), make_step(2, select, (2, "x", "y"), (1, "?", "y"))]
    for error, columns in (("", [("a", "b")]), ("IntegrityError", [])):
        steps = (*read, make_step(3, update, error=error))
        updates = list_updates("POST a", Schedule("111", steps, (), ""))
        found = [("".join(each.changed), "".join(each.unchanged)) for each in updates]
        assert found == columns


def test_the_lines_that_are_left_out_are_counted() -> None:
    explored = [Explored(names=["a"], tests=["t"], reason="late") for _ in range(MAX_LINES + 3)]
    results = Discovery(explored=explored)
    report = [*write_report(results, Accepted([]), verbosity=0)]
    assert report[-2:] == ["Not decided: a: late", "… and 3 more such lines; -v lists them."]
    assert [*write_report(results, Accepted([]), verbosity=1)].count(report[-2]) == MAX_LINES + 3
