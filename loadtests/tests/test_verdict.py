"""The verdict: a ledger that holds, the same with one thing broken on purpose, and what follows."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from loadtests.harness.lab_api import Link
from loadtests.harness.ledger import Ledger
from loadtests.harness.verdict import BUSY, Exit, Verdict, judge, wilson

A, B, C = (f"https://lab-aaaaa.invalid/{name}" for name in "abc")
HOT = "https://lab-aaaaa.invalid/hot"
DEFAULTS: dict[str, Any] = {
    "script": "lost_update",
    "strategy": "some",
    "operation": "resolving",
    "table": "right",
    "seeds": ["hot"],
}


def ledger() -> Ledger:
    """Return the ledger of a run with a hot key, three creates, an edit and four redirects."""
    ledger = Ledger(sent=8)
    for hits in "123":
        ledger.redirected("hot", hits=hits, request=f"request {hits}")
    ledger.redirected("a", hits="1", request="request 4")
    for key, target_url in (("a", A), ("b", B), ("c", C)):
        ledger.created(key, target_url)
    ledger.edit("hot", f"{HOT}/new")
    for _ in range(8):
        ledger.took(5, at=1001.0)
    return ledger


def links(**changes: Link | None) -> list[Link]:
    """Return what the database has after that run, but for the changes."""
    found: dict[str, Link | None] = {
        "hot": Link("hot", f"{HOT}/new", 3),
        "a": Link("a", A, 1),
        "b": Link("b", B, 0),
        "c": Link("c", C, 0),
    }
    return [link for link in {**found, **changes}.values() if link]


def judged(of: Ledger, found: Iterable[Link], **changes: Any) -> Verdict:
    return judge(of, found, **{**DEFAULTS, **changes})


def broken(verdict: Verdict) -> dict[str, int]:
    """Return what is not zero of what must be."""
    names = ("lost_hits", "doubled", "stolen", "missing", "undone", "failed")
    return {name: getattr(verdict, name) for name in names if getattr(verdict, name)}


def test_a_ledger_that_holds() -> None:
    verdict = judged(ledger(), links())
    assert broken(verdict) == {}
    assert (verdict.broke, verdict.exit) == (False, Exit.AS_THE_TABLE_SAYS)
    assert (verdict.requests, verdict.acknowledged, verdict.edits) == (8, 8, 1)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"hot": Link("hot", f"{HOT}/new", 2)}, {"lost_hits": 1}),
        ({"hot": Link("hot", f"{HOT}/new", 4)}, {"doubled": 1}),
        ({"b": Link("b", B, 1)}, {"doubled": 1}),
        ({"a": Link("a", B, 1), "b": Link("b", A, 0)}, {"stolen": 2}),
        ({"a": None}, {"missing": 1, "lost_hits": 1}),
        ({"b": None}, {"missing": 1}),
        ({"d": Link("d", A, 0)}, {"doubled": 1}),
        ({"hot": Link("hot", HOT, 3)}, {"undone": 1}),
        (
            # One lost here is not made up for by one too many there.
            {"hot": Link("hot", f"{HOT}/new", 2), "b": Link("b", B, 1)},
            {"lost_hits": 1, "doubled": 1},
        ),
    ],
)
def test_broken_on_purpose(changes: dict[str, Link | None], found: dict[str, int]) -> None:
    verdict = judged(ledger(), links(**changes))
    assert broken(verdict) == found
    assert (verdict.broke, verdict.exit) == (True, Exit.OTHERWISE)
    assert judged(ledger(), links(**changes), table="wrong").exit is Exit.AS_THE_TABLE_SAYS


def unknown_redirect(ledger: Ledger) -> None:
    ledger.unknown_redirects["hot"] += 1


def unknown_create(ledger: Ledger) -> None:
    ledger.unknown_creates.append(f"{A}/unknown")


def unknown_edit(ledger: Ledger) -> None:
    ledger.unknown_edits += 1


@pytest.mark.parametrize(
    ("note", "allowed", "too_much"),
    [
        (unknown_redirect, {"hot": Link("hot", f"{HOT}/new", 4)}, {"b": Link("b", B, 1)}),
        (unknown_redirect, {}, {"hot": Link("hot", f"{HOT}/new", 5)}),
        (unknown_redirect, {}, {"hot": Link("hot", f"{HOT}/new", 2)}),
        (unknown_create, {"d": Link("d", f"{A}/unknown", 0)}, {"d": Link("d", f"{A}/else", 0)}),
        (unknown_create, {}, {"a": None}),
        (
            unknown_create,
            {},
            {"d": Link("d", f"{A}/unknown", 0), "e": Link("e", f"{A}/unknown", 0)},
        ),
        (unknown_edit, {"hot": Link("hot", f"{HOT}/newer", 3)}, {"a": Link("a", B, 1)}),
    ],
)
def test_the_unknown_is_allowed_for_and_no_more(
    note: Callable[[Ledger], None],
    allowed: dict[str, Link | None],
    too_much: dict[str, Link | None],
) -> None:
    of = ledger()
    note(of)
    verdict = judged(of, links(**allowed))
    assert (broken(verdict), verdict.unknown) == ({}, 1)
    assert judged(of, links(**too_much)).broke


def failing(kind: str) -> Ledger:
    """Return the ledger with one error of that kind."""
    of = ledger()
    of.sent += 1
    of.errors[kind] += 1
    return of


@pytest.mark.parametrize("kind", ["500 IntegrityError", "503 OperationalError", "404", "503"])
def test_a_request_that_fails(kind: str) -> None:
    verdict = judged(failing(kind), links())
    assert (broken(verdict), verdict.exit) == ({"failed": 1}, Exit.OTHERWISE)
    assert verdict.errors == {kind: 1}


@pytest.mark.parametrize(
    ("kind", "failed"),
    [
        ("503 OperationalError", 0),
        ("503", 0),
        ("not sent: ConnectionRefusedError", 0),
        ("no answer: ConnectionResetError", 0),
        ("500 IntegrityError", 1),
        ("503 Contended", 1),
    ],
)
def test_faults_on_purpose_excuse_a_database_that_is_away(kind: str, failed: int) -> None:
    verdict = judged(failing(kind), links(), faults=True)
    assert (verdict.failed, verdict.reason) == (failed, "")


def test_a_failed_create_is_a_lost_one() -> None:
    verdict = judged(failing("500 IntegrityError"), links(), operation="creating")
    assert (verdict.lost, verdict.of, verdict.share) == (1, 8, 1 / 8)


@pytest.mark.parametrize(
    ("table", "broke", "code"),
    [
        ("right", False, 0),
        ("right", True, 1),
        ("wrong", True, 0),
        ("wrong", False, 1),
        ("right alone, wrong inside a transaction", False, 0),
        ("right alone, wrong inside a transaction", True, 1),
    ],
)
def test_the_exit_code(table: str, broke: bool, code: int) -> None:
    changes = {"b": None} if broke else {}
    assert judged(ledger(), links(**changes), table=table).exit == code


@pytest.mark.parametrize(
    ("of", "changes", "reason"),
    [
        (Ledger(), {}, "no request was sent"),
        (ledger(), {"reason": "cut short"}, "cut short"),
        (failing("not sent: ConnectionRefusedError"), {}, "the service went away: 1 requests"),
        (Ledger(sent=2, unknown_edits=2), {}, "none of the 2 requests was answered"),
    ],
)
def test_what_cannot_be_judged(of: Ledger, changes: dict[str, Any], reason: str) -> None:
    verdict = judged(of, links(), **changes)
    assert verdict.exit == Exit.NOT_JUDGED
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (1, 1000, 0.0002, 0.0056),
    ],
)
def test_the_interval(count: int, of: int, low: float, high: float) -> None:
    """The values are those of R's binom.confint(count, of, methods="wilson")."""
    assert [*wilson(count, of)] == pytest.approx([low, high], abs=5e-5)


def test_no_interval_of_nothing() -> None:
    assert wilson(0, 0) == (0.0, 0.0)


def test_throughput_and_times() -> None:
    of = Ledger(errors=Counter({"500 IntegrityError": 60}))
    for number in range(100):
        of.took(number + 1, at=1000.0 + (number + 1) / 10)
    of.redirects["hot"], of.other = 30, 10
    of.edit("hot", f"{HOT}/new")  # which is not measured
    verdict = judged(of, [])
    assert (verdict.p50, verdict.p95, verdict.p99) == (50, 95, 99)
    assert verdict.per_second == pytest.approx(40 / verdict.seconds)
    assert verdict.seconds == pytest.approx(9.9, abs=0.11)


def test_the_load_generator_is_watched() -> None:
    of = ledger()
    of.cpu = {"one": BUSY - 0.1}
    assert not judged(of, links()).busy
    of.cpu["two"] = BUSY + 0.01
    assert judged(of, links()).busy


def test_an_unknown_hit_does_not_hide_a_lost_one() -> None:
    """Two answers have the same number: one of them is lost, and the sum only seems to be right."""
    of = ledger()
    of.redirected("hot", hits="3", request="another request")
    unknown_redirect(of)
    verdict = judged(of, links(hot=Link("hot", f"{HOT}/new", 4)))
    assert (broken(verdict), verdict.exit) == ({"lost_hits": 1}, Exit.OTHERWISE)


# --- Proofs --------------------------------------------------------------------------------------


def test_two_redirects_prove_a_lost_hit() -> None:
    of = ledger()
    of.redirected("hot", hits="2", request="another request")
    verdict = judged(of, links())
    assert verdict.lost == 1
    assert verdict.proofs == [
        ["Two redirects of hot made the counter 2:", "request 2", "another request"]
    ]


def test_two_creates_prove_a_stolen_key() -> None:
    of = ledger()
    of.created("a", f"{A}/mine")
    verdict = judged(of, links(), operation="creating")
    assert (verdict.stolen, verdict.lost) == (1, 1)
    assert verdict.proofs == [["Two creates were told that a is theirs:", A, f"{A}/mine"]]


def test_two_creates_prove_a_collision() -> None:
    of = failing("500 IntegrityError")
    of.refused(f"{A}/mine", "500 IntegrityError", "DETAIL:  Key (key)=(b) already exists.")
    of.refused(f"{A}/other", "500 IntegrityError", "something else")
    assert judged(of, links()).proofs == [
        ["Two creates drew b:", B, f"{A}/mine, answered 500 IntegrityError"]
    ]


def test_an_edit_and_a_redirect_prove_that_it_was_undone() -> None:
    of = ledger()
    of.undid("hot", f"{HOT}/new", HOT)
    verdict = judged(of, links(hot=Link("hot", HOT, 3)))
    assert verdict.undone == 1
    assert verdict.proofs == [
        [
            "An edit of hot was undone:",
            f"it was acknowledged to lead to {HOT}/new",
            f"and afterwards led to {HOT}",
        ]
    ]


def test_two_proofs_are_enough() -> None:
    of = ledger()
    for _ in range(5):
        of.redirected("hot", hits="2", request="another request")
    assert len(judged(of, links()).proofs) == 2


def test_a_redirect_that_fails_is_no_race() -> None:
    """A wrong strategy has to lose something, for its run to be as the table says."""
    failing = Verdict("lost_update", "some", "resolving", "wrong", failed=1, acknowledged=9)
    assert failing.exit is Exit.OTHERWISE
    losing = Verdict("lost_update", "some", "resolving", "wrong", lost=1, acknowledged=9)
    assert losing.exit is Exit.AS_THE_TABLE_SAYS
