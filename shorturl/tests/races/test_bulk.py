"""Creates of many links beside each other: by one request, one by one, and by import.

Every order of their statements is run, and has to end as if they had run one after another.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction

from pginterleave.pytest_plugin import Interleave
from shorturl import bans, bulk, operations
from shorturl.exceptions import KeyTaken, LinksRefused
from shorturl.links import keys
from shorturl.tests.callers import OTHER, TARGET, create_link, run, user


def create_many(target_url: str, *wanted: str | None) -> list[str]:
    rows = [{"target_url": target_url, "key": key} for key in wanted]
    return [link.key for link in operations.create_many(rows, owner_id=None)]


def create_b() -> str:
    return operations.create(OTHER, key="b").key


@pytest.fixture
def no_ban_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the check for banned domains: each further step multiplies the schedules."""
    monkeypatch.setattr(bans, "banned_targets", lambda targets: {})


def insert_and_roll_back() -> None:
    """Keep others waiting for the key `a`, and leave it free."""
    with suppress(IntegrityError), transaction.atomic():
        create_link("a")
        transaction.set_rollback(True)


def import_links(folder: Path, keys: str, *options: str) -> Callable[[], object]:
    """Return a process that imports links with keys of one letter."""
    file = folder / f"{keys}.csv"
    rows = [f"{key},{TARGET},2022-04-29T00:00:00Z" for key in keys]
    file.write_text("\n".join(["key,target_url,created_at", *rows]))
    return partial(run, "import_links", str(file), *options)


create_a_and_b = partial(create_many, TARGET, "a", "b")
create_b_and_a = partial(create_many, OTHER, "b", "a")


def test_the_same_keys_in_opposite_orders_do_not_deadlock(interleave: Interleave) -> None:
    """Both statements insert `a` before `b`.

    Process 1 inserts a and b. Process 2 inserts a, and waits for process 1. Process 1 commits, so
    process 2 gets neither key and is told so. If process 2 inserted b first, both would wait.
    """
    interleave(create_a_and_b, create_b_and_a, expected=LinksRefused)


@pytest.mark.usefixtures("no_ban_is_looked_for")
def test_the_same_keys_do_not_deadlock_after_a_rollback(interleave: Interleave) -> None:
    """Process 3 inserts a. Processes 1 and 2 insert a, and wait for process 3. Process 3 rolls
    back, and one of the two goes on. If the other had inserted b meanwhile, they would deadlock.
    """
    interleave(create_a_and_b, create_b_and_a, insert_and_roll_back, expected=LinksRefused)


def test_a_request_gets_all_its_keys_or_none_beside_a_create_of_one(interleave: Interleave) -> None:
    """Process 1 inserts a and b. Process 2 inserts b, and waits. Process 1 commits, and process 2
    is told that its key is taken. In the other order process 1 is told so, and a stays free.
    """
    interleave(create_a_and_b, create_b, expected=(LinksRefused, KeyTaken))


@pytest.mark.usefixtures("no_ban_is_looked_for")
def test_drawing_a_key_that_the_other_process_has_chosen_does_not_deadlock(
    interleave: Interleave, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key is drawn again by a new statement in a new transaction.

    Process 1 inserts a and taken. Process 2 inserts b and taken. Both roll back. Then process 1
    inserts a and b, and process 2 waits for b. In one transaction process 1 would still hold a,
    and process 2 b, and each would wait for the other.
    """
    create_link("taken")
    drawn_keys: ContextVar[list[str]] = ContextVar("keys")  # each process has its own
    monkeypatch.setattr(keys, "candidates", lambda: drawn_keys.get())

    def create_two(target_url: str, key: str, drawn: list[str]) -> list[str]:
        """Create a link with the key, and one with the first free key of those that are drawn."""
        drawn_keys.set(drawn)
        return create_many(target_url, key, None)

    interleave(
        partial(create_two, TARGET, "a", ["taken", "b", "c"]),
        partial(create_two, OTHER, "b", ["taken", "a", "d"]),
        expected=LinksRefused,
    )


def test_an_import_leaves_out_the_key_of_a_concurrent_create(
    interleave: Interleave, tmp_path: Path
) -> None:
    """Process 1 imports a and b. Process 2 inserts b, and waits. Process 1 commits, and process 2
    is told that its key is taken. In the other order the import creates a, and refuses b.
    """
    interleave(import_links(tmp_path, "ab"), create_b, expected=(CommandError, KeyTaken))


@pytest.mark.usefixtures("no_ban_is_looked_for")
def test_two_imports_set_one_owner(
    interleave: Interleave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both processes read that a has no owner. Process 1 sets its owner and commits. Process 2
    changes no row, as the link has an owner now.
    """
    create_link("a")
    monkeypatch.setattr(bulk, "insert", lambda rows: {})  # each import finds that a exists
    processes = [import_links(tmp_path, "a", "--owner", user().username) for _ in range(2)]
    interleave(*processes)
