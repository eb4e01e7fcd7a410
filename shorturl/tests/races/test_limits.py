"""Quotas, reuse and repeated requests, each by two processes at once.

Every order of their statements is run, and has to end as if they had run one after another.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pytest_django import Settings

from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.exceptions import InFlight, KeyTaken, TooManyCreates
from shorturl.limits import quotas
from shorturl.links import keys
from shorturl.tests.callers import TARGET, create_link, user

SPENDER = "account 1"


class Killed(Exception):
    """Ends a process; atomic() rolls back, as PostgreSQL does when a session ends."""


@pytest.fixture(autouse=True)
def one_link_a_day(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a quota of one link for a period that does not end meanwhile; draw always one key."""
    settings.SHORTURL_LINKS_PER_DAY = 1
    monkeypatch.setattr(quotas, "DAY", timedelta(days=10_000))  # the current one ends in 2052
    monkeypatch.setattr(keys, "draw", lambda length: "drawn")


def create(key: str) -> str:
    return quotas.spend(SPENDER, partial(operations.create, TARGET, key=key)).key


def test_of_two_creates_one_gets_the_last_link_of_the_quota(interleave: Interleave) -> None:
    """Process 1 inserts the counter. Process 2 inserts it too, and waits until process 1 commits.

    Then the upsert of process 2 adds to the committed counter, finds it used up, and is refused.
    """
    interleave(partial(create, "a"), partial(create, "b"), expected=TooManyCreates)


def test_a_failed_create_leaves_its_quota_to_another(interleave: Interleave) -> None:
    """Process 1 spends the last link, and its key is taken. Process 2 waits for the counter.

    Process 1 rolls back, and process 2 creates its link.
    """
    create_link("taken")

    def create_taken() -> None:
        with suppress(KeyTaken, TooManyCreates):
            create("taken")

    interleave(create_taken, partial(create, "a"))


@pytest.mark.parametrize("quota", [0, 2], ids=["no quota", "quota of two"])
def test_two_reuses_of_a_target_get_one_link_and_pay_once(
    interleave: Interleave, settings: Settings, quota: int
) -> None:
    """Both processes find no link. Process 1 spends and creates one. Process 2 waits for the
    counter or, without a quota, for the advisory lock. Process 1 commits. Process 2 finds the link
    then, and gives back what it has spent.
    """
    settings.SHORTURL_LINKS_PER_DAY = quota
    owner_id = user().pk

    def reuse() -> tuple[str, bool]:
        link, is_new = quotas.reuse(SPENDER, TARGET, owner_id=owner_id)
        return link.key, is_new

    interleave(reuse)


def send(key: str) -> str:
    """Send a create with an Idempotency-Key; return the key of the link in the answer."""

    def work() -> dict[str, Any]:
        return {"status": 201, "body": create(key)}

    return operations.answer("somebody", "the-key", "the fingerprint", work=work).body


def test_a_request_that_is_sent_twice_is_carried_out_once(interleave: Interleave) -> None:
    """Process 1 takes the lock of the key, and works. Process 2 is told that the request is in
    progress, or, after the COMMIT of process 1, gets its answer.
    """
    interleave(partial(send, "a"), partial(send, "b"), expected=InFlight)


def test_a_killed_process_leaves_the_request_to_another_one(interleave: Interleave) -> None:
    """Process 1 has created the link and is killed before it stores the answer.

    Its link, charge and lock are rolled back. Process 2 is told that the request is in progress, or
    does the work.
    """

    def work_and_be_killed() -> dict[str, Any]:
        create("a")
        raise Killed

    def send_and_be_killed() -> None:
        with suppress(Killed):
            operations.answer("somebody", "the-key", "the fingerprint", work=work_and_be_killed)

    interleave(send_and_be_killed, partial(send, "b"), expected=InFlight)
