"""A ledger that agrees with the database, and one that differs in one way."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import Ledger
from loadtests.harness.reconciliation import reconcile
from loadtests.harness.result import BUSY, ExitCode, LoadResult, wilson

A, B, C = (f"https://lab-aaaaa.invalid/{name}" for name in "abc")
HOT = "https://lab-aaaaa.invalid/hot"
NEW = f"{HOT}/new"
Row = tuple[str, int] | None  # the target and the hits of a key; None without it
DEFAULTS: dict[str, Any] = {
    "script": "lost_update",
    "strategy": "some",
    "operation": "resolving",
    "verdict": "right",
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
    ledger.edit("hot", NEW)
    return ledger


def links(**changes: Row) -> list[StoredLink]:
    """Return what the database has after that run, but for the changes."""
    rows: dict[str, Row] = {"hot": (NEW, 3), "a": (A, 1), "b": (B, 0), "c": (C, 0), **changes}
    return [StoredLink(key, *row) for key, row in rows.items() if row]


def reconciled(of: Ledger, found: Iterable[StoredLink], **changes: Any) -> LoadResult:
    return reconcile(of, found, **{**DEFAULTS, **changes})


def violations(result: LoadResult) -> dict[str, int]:
    """Return what is not zero of what must be."""
    names = ("lost_hits", "doubled", "stolen", "missing", "extra", "undone", "failed")
    return {name: getattr(result, name) for name in names if getattr(result, name)}


def test_a_ledger_that_agrees() -> None:
    result = reconciled(ledger(), links())
    assert violations(result) == {}
    assert (result.violated, result.exit_code) == (False, ExitCode.AS_EXPECTED)
    assert (result.requests, result.acknowledged, result.edits) == (8, 8, 1)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"hot": (NEW, 2)}, {"lost_hits": 1}),
        ({"hot": (NEW, 4)}, {"doubled": 1}),
        ({"b": (B, 1)}, {"doubled": 1}),
        ({"a": (B, 1), "b": (A, 0)}, {"stolen": 2}),
        ({"a": None}, {"missing": 1, "lost_hits": 1}),
        ({"b": None}, {"missing": 1}),
        ({"d": (A, 0)}, {"doubled": 1}),
        ({"hot": (HOT, 3)}, {"undone": 1}),
        (
            # One lost here is not made up for by one too many there.
            {"hot": (NEW, 2), "b": (B, 1)},
            {"lost_hits": 1, "doubled": 1},
        ),
    ],
)
def test_each_difference_is_found(changes: dict[str, Row], found: dict[str, int]) -> None:
    result = reconciled(ledger(), links(**changes))
    assert violations(result) == found
    assert (result.violated, result.exit_code) == (True, ExitCode.UNEXPECTED)


def unknown_redirect(ledger: Ledger) -> None:
    ledger.unknown_redirects["hot"] += 1


def unknown_create(ledger: Ledger) -> None:
    ledger.unknown_creates.append(f"{A}/unknown")


def unknown_edit(ledger: Ledger) -> None:
    ledger.unknown_edits.append(f"{HOT}/newer")


@pytest.mark.parametrize(
    ("note", "allowed", "too_much"),
    [
        (unknown_redirect, {"hot": (NEW, 4)}, {"b": (B, 1)}),
        (unknown_redirect, {}, {"hot": (NEW, 5)}),
        (unknown_redirect, {}, {"hot": (NEW, 2)}),
        (unknown_create, {"d": (f"{A}/unknown", 0)}, {"d": (f"{A}/else", 0)}),
        (unknown_create, {}, {"a": None}),
        (unknown_create, {}, {"d": (f"{A}/unknown", 0), "e": (f"{A}/unknown", 0)}),
        (unknown_edit, {"hot": (f"{HOT}/newer", 3)}, {"hot": (HOT, 3)}),
    ],
)
def test_the_unknown_is_allowed_for_and_no_more(
    note: Callable[[Ledger], None], allowed: dict[str, Row], too_much: dict[str, Row]
) -> None:
    of = ledger()
    note(of)
    result = reconciled(of, links(**allowed))
    assert (violations(result), result.unknown) == ({}, 1)
    assert reconciled(of, links(**too_much)).violated


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 0, 0.0, 0.0), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1000, 0.0002, 0.0056)],
)
def test_the_interval(count: int, of: int, low: float, high: float) -> None:
    """The values are those of R's binom.confint(count, of, methods="wilson")."""
    assert [*wilson(count, of)] == pytest.approx([low, high], abs=5e-5)


def test_the_load_generator_is_watched() -> None:
    of = ledger()
    of.cpu = {"one": BUSY - 0.1}
    assert not reconciled(of, links()).busy
    of.cpu["two"] = BUSY + 0.01
    assert reconciled(of, links()).busy


# --- Proofs --------------------------------------------------------------------------------------


def test_two_redirects_prove_a_lost_hit() -> None:
    of = ledger()
    for number in (1, 2, 3):
        of.redirected("hot", hits=str(number), request=f"another request {number}")
    result = reconciled(of, links())
    assert result.lost == 3
    assert result.proofs == [  # two are enough
        [f"Two redirects of hot made the counter {n}:", f"request {n}", f"another request {n}"]
        for n in (1, 2)
    ]


def test_two_creates_prove_a_stolen_key() -> None:
    of = ledger()
    of.created("a", f"{A}/mine")
    result = reconciled(of, links(), operation="creating")
    assert (result.stolen, result.lost) == (1, 1)
    assert result.proofs == [["Two creates were told that a is theirs:", A, f"{A}/mine"]]


def test_two_creates_prove_a_collision() -> None:
    of = ledger()
    of.refused(f"{A}/mine", "500 IntegrityError", "DETAIL:  Key (key)=(b) already exists.")
    of.refused(f"{A}/other", "500 IntegrityError", "something else")
    assert reconciled(of, links()).proofs == [
        ["Two creates drew b:", B, f"{A}/mine, answered 500 IntegrityError"]
    ]


def test_an_edit_and_a_redirect_prove_that_it_was_undone() -> None:
    of = ledger()
    of.undid("hot", NEW, HOT)
    result = reconciled(of, links(hot=(HOT, 3)))
    assert result.undone == 1
    assert result.proofs == [
        [
            "An edit of hot was undone:",
            f"it was acknowledged to lead to {NEW}",
            f"and afterwards led to {HOT}",
        ]
    ]


def test_links_beyond_a_quota_are_those_in_the_database() -> None:
    """Each spender has its own; a request that a proxy repeated made a link within the quota."""
    made = Ledger(sent=4)
    found = []
    for key, spender in (("a", 0), ("b", 0), ("c", 0), ("d", 1)):
        target_url = f"https://lab-aaaaa.invalid/{spender}/{key}"
        made.created(key, target_url)
        found.append(StoredLink(key, target_url, 0))
    changes = {"operation": "spending", "verdict": "wrong", "seeds": ()}
    result = reconciled(made, found, limit=2, **changes)
    assert (result.lost, result.of, result.exit_code) == (1, 4, ExitCode.AS_EXPECTED)
    assert reconciled(made, found, limit=3, **changes).lost == 0
