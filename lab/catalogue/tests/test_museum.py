"""The race museum: every bug breaks as it was found, and holds as it is mended."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError

from lab.catalogue import museum
from lab.catalogue.museum import MUSEUM, Exhibit, null_in_a_unique_key
from lab.catalogue.museum.exhibit import ExhibitModel, execute
from lab.scratch_database import scratch_database
from pginterleave import Exploration
from shorturl.strategies import Verdict

# Broken schedules, all of them, and the shortest that breaks.
COUNTS = {
    ("no_unique_constraint", "as_found"): (4, 6, "1212"),
    ("no_unique_constraint", "mended"): (0, 2, ""),
    ("null_in_a_unique_key", "as_found"): (18, 20, "112122"),
    ("null_in_a_unique_key", "mended"): (0, 2, ""),
    ("retry_without_a_savepoint", "as_found"): (4, 4, "1122"),
    ("retry_without_a_savepoint", "mended"): (0, 24, ""),
    ("next_id_written_back", "as_found"): (24, 66, "1122112"),
    ("next_id_written_back", "mended"): (0, 6, ""),
    ("bare_save", "as_found"): (7, 10, "12122"),
    ("bare_save", "mended_by_half"): (2, 10, "12122"),
    ("bare_save", "mended"): (0, 10, ""),
    ("row_lock_on_no_row", "as_found"): (18, 20, "112122"),
    ("row_lock_on_no_row", "mended"): (0, 2, ""),
    ("row_lock_on_no_row", "mended_with_a_lock"): (0, 8, ""),
    ("limited_use", "as_found"): (4, 6, "1212"),
    ("limited_use", "mended"): (0, 2, ""),
    ("limited_use", "mended_with_a_lock"): (0, 6, ""),
}
# Everything that goes wrong in some schedule.
DAMAGE = {
    ("no_unique_constraint", "as_found"): {"2 links have the address sale"},
    ("null_in_a_unique_key", "as_found"): {"2 links are called sale"},
    ("retry_without_a_savepoint", "as_found"): {
        f"process {process} gets TransactionManagementError" for process in (1, 2)
    },
    ("next_id_written_back", "as_found"): {
        f"process {process} gets IntegrityError" for process in (1, 2)
    },
    ("bare_save", "as_found"): {"the edit of the target is undone", "clicks = 1, not 2"},
    ("bare_save", "mended_by_half"): {"the edit of the target is undone"},
    ("row_lock_on_no_row", "as_found"): {"2 rows for one hour"},
    ("limited_use", "as_found"): {"redeemed 2 times, not 1"},
}
EVERY = [
    (exhibit.race.name, name) for exhibit in MUSEUM.values() for name in exhibit.race.strategies
]
every_exhibit = pytest.mark.parametrize("exhibit", MUSEUM.values(), ids=MUSEUM)


@pytest.fixture(scope="module")
def explored(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str], Exploration]:
    with django_db_blocker.unblock(), scratch_database():
        return {
            (race, name): MUSEUM[race].race.explore(MUSEUM[race].race.strategies[name], 2)
            for race, name in EVERY
        }


@pytest.mark.parametrize(("race", "name"), EVERY)
def test_it_breaks_as_found_and_holds_mended(
    explored: dict[tuple[str, str], Exploration], race: str, name: str
) -> None:
    result = explored[race, name]
    witness = result.counterexample.order if result.counterexample else ""
    assert (len(result.violations), result.schedules, witness) == COUNTS[race, name]
    assert result.complete
    assert {schedule.violation for schedule in result.violations} == DAMAGE.get((race, name), set())
    verdict = MUSEUM[race].race.strategies[name].verdict
    assert verdict is (Verdict.WRONG if result.violations else Verdict.RIGHT)


@every_exhibit
def test_it_has_a_bug_a_remedy_and_a_source(exhibit: Exhibit) -> None:
    first, *_, last = exhibit.race.strategies.values()
    assert first.name == "as_found"
    assert last.verdict is Verdict.RIGHT
    projects = "Kutt", "Shlink", "YOURLS", "django-link-shortener", "django-short-links"
    assert exhibit.source.startswith(projects)
    assert len(exhibit.what.split()) > 50
    assert exhibit.lesson.endswith(".")
    names = [name for name, _ in parameters(exhibit.signature)]
    for strategy in exhibit.race.strategies.values():
        assert [*inspect.signature(strategy.function).parameters] == names


def parameters(signature: str) -> list[tuple[str, str]]:
    """Return the names and types in `create(code: str, target_url: str) -> bool: …`."""
    inside = signature[signature.index("(") + 1 : signature.index(")")]
    pairs = [each.partition(": ") for each in inside.split(", ")]
    return [(name, kind) for name, _, kind in pairs]


@every_exhibit
def test_each_strategy_is_a_short_function_that_says_why(exhibit: Exhibit) -> None:
    for name, strategy in exhibit.race.strategies.items():
        function = strategy.function
        assert function.__name__ == name
        assert function.__module__ == f"{museum.__name__}.{exhibit.race.name}"
        right = strategy.verdict is Verdict.RIGHT
        assert ("Why nothing can go wrong:" if right else "What goes wrong:") in function.__doc__
        assert len(inspect.getsource(function).splitlines()) <= 20


def test_every_file_is_an_exhibit() -> None:
    files = {path.stem for path in Path(str(museum.__file__)).parent.glob("*.py")}
    assert set(MUSEUM) == files - {"__init__", "exhibit"}


def test_no_migration_is_due_for_the_tables() -> None:
    assert ExhibitModel.__subclasses__()
    assert [model for model in apps.get_models() if issubclass(model, ExhibitModel)] == []


@pytest.mark.django_db
def test_the_unique_key_holds_on_every_domain_but_the_default_one() -> None:
    """Why nobody notices the NULL: with a domain of one's own, the second link is refused."""
    null_in_a_unique_key.no_links(null_in_a_unique_key.EXHIBIT.race.strategies["as_found"])
    insert = "INSERT INTO museum_domainlink (code, domain_id, target_url) VALUES "
    execute(insert + "('sale', NULL, 'a'), ('sale', NULL, 'b'), ('sale', 7, 'c')")
    with pytest.raises(IntegrityError):
        execute(insert + "('sale', 7, 'd')")
