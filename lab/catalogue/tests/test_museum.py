"""The race museum: every bug violates its invariant as it was found, and no longer as mended."""

import inspect

import pytest
from django.db import IntegrityError

from lab.catalogue.museum import MUSEUM, Exhibit
from lab.catalogue.museum.null_in_a_unique_key import DomainLink, no_links
from lab.scratch_database import scratch_database
from shorturl.strategies import Verdict

# Violating schedules, all of them, the counterexample, and everything that goes wrong.
FOUND = {
    "no_unique_constraint/as_found": (18, 20, "112221", "2 links are called sale"),
    "no_unique_constraint/mended": (0, 4, "", ""),
    "null_in_a_unique_key/as_found": (18, 20, "112221", "2 links are called sale"),
    "null_in_a_unique_key/mended": (0, 4, "", ""),
    "retry_without_a_savepoint/as_found": (
        4,
        4,
        "1122",
        "process 1 raises TransactionManagementError; process 2 raises TransactionManagementError",
    ),
    "retry_without_a_savepoint/mended": (0, 24, "", ""),
    "next_id_written_back/as_found": (
        80,
        314,
        "111222111",
        "process 1 raises IntegrityError; process 2 raises IntegrityError",
    ),
    "next_id_written_back/mended": (0, 50, "", ""),
    "bare_save/as_found": (
        32,
        36,
        "12222211",
        "clicks = 1, not 2; the edit of the target is undone",
    ),
    "bare_save/mended_by_half": (8, 36, "12222211", "the edit of the target is undone"),
    "bare_save/mended": (0, 36, "", ""),
    "row_lock_on_no_row/as_found": (18, 20, "112221", "2 rows for one hour"),
    "row_lock_on_no_row/mended": (0, 4, "", ""),
    "row_lock_on_no_row/mended_with_a_lock": (0, 8, "", ""),
    "limited_use/as_found": (12, 14, "122211", "redeemed 2 times, not 1"),
    "limited_use/mended": (0, 4, "", ""),
    "limited_use/mended_with_a_lock": (0, 6, "", ""),
}


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_it_violates_the_invariant_as_found_and_not_mended() -> None:
    found = {}
    with scratch_database():
        for exhibit in MUSEUM.values():
            for name, strategy in exhibit.strategies.items():
                result = exhibit.explore(strategy, 2, reduce=True)
                assert result.complete
                assert strategy.verdict is (Verdict.WRONG if result.violations else Verdict.RIGHT)
                shortest = result.counterexample.order if result.counterexample else ""
                violations = "; ".join(sorted({each.violation for each in result.violations}))
                counts = (result.violating, result.schedules)
                found[f"{exhibit.name}/{name}"] = (*counts, shortest, violations)
    assert found == FOUND


@pytest.mark.parametrize("exhibit", MUSEUM.values(), ids=MUSEUM)
def test_it_says_why_and_how_a_function_of_ones_own_is_called(exhibit: Exhibit) -> None:
    for strategy in exhibit.strategies.values():
        called = ", ".join(
            f"{each.name}: {getattr(each.annotation, '__name__', each.annotation)}"
            for each in inspect.signature(strategy.function).parameters.values()
        )
        assert f"({called}) -> " in exhibit.signature.replace("Iterable[str]", "Iterable")
        right = strategy.verdict is Verdict.RIGHT
        says = "Why nothing can go wrong:" if right else "What goes wrong:"
        assert says in strategy.function.__doc__


@pytest.mark.django_db
def test_the_unique_key_holds_on_every_domain_but_the_default_one() -> None:
    """Why nobody notices the NULL: with a domain of one's own, the second link is refused."""
    no_links(MUSEUM["null_in_a_unique_key"].strategies["as_found"])
    for domain in (None, None, 7):
        DomainLink.objects.create(code="sale", domain_id=domain, target_url="https://a.example/")
    with pytest.raises(IntegrityError):
        DomainLink.objects.create(code="sale", domain_id=7, target_url="https://b.example/")
