"""Quotas, reuse and repeated requests, each by two processes at once."""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pytest_django import Settings

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.exceptions import InFlight, KeyTaken, TooManyCreates
from shorturl.limits import quotas
from shorturl.links import keys
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.tests.callers import TARGET, user

SPENDER = "account 1"


class Killed(Exception):
    """Ends a process; atomic() rolls back, as PostgreSQL does when a session ends."""


@pytest.fixture(autouse=True)
def one_link_a_day(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the quota be one link, no day end meanwhile, and each random key be the same."""
    settings.SHORTURL_LINKS_PER_DAY = 1
    monkeypatch.setattr(quotas, "DAY", timedelta(days=10_000))  # one began in 2024
    monkeypatch.setattr(keys, "draw", lambda length: "drawn")


def create(key: str) -> str:
    return quotas.spend(SPENDER, partial(operations.create, TARGET, key=key)).key


def spent() -> list[int]:
    return list(QuotaUsage.objects.values_list("spent", flat=True))


def one_link_is_charged(outcomes: list[Outcome]) -> None:
    """Check that one process has made a link, and that it was charged once."""
    made = [outcome.returned for outcome in outcomes if outcome.returned]
    assert made == list(ShortUrl.objects.filter(target_url=TARGET).values_list("key", flat=True))
    assert spent() == [1] == [len(made)]


def test_the_first_link_of_a_day(interleave: Interleave) -> None:
    """Process 1 inserts the counter. Process 2 inserts it too, and waits until process 1 commits.

    Then the upsert of process 2 adds to the committed counter, finds it used up, and is refused.
    """
    interleave(
        partial(create, "a"),
        partial(create, "b"),
        invariant=one_link_is_charged,
        expected=TooManyCreates,
    )


def test_the_last_link_beside_a_create_that_fails(interleave: Interleave) -> None:
    """What a failed create has spent is rolled back with it, and the other one gets the link.

    Process 1 spends the last link, and its key is taken. Process 2 waits for the counter. Process 1
    rolls back, and process 2 creates its link.
    """
    operations.create("https://other.example/", key="taken")

    def create_taken() -> None:
        with suppress(KeyTaken, TooManyCreates):
            create("taken")

    interleave(create_taken, partial(create, "a"), invariant=one_link_is_charged)


@pytest.mark.parametrize("is_limited", [False, True])
def test_reuse_of_one_target(interleave: Interleave, settings: Settings, is_limited: bool) -> None:
    """Both get one link, and it is charged once.

    Process 1 finds no link, and spends one. Process 2 finds none either, and waits for the counter
    or, without a quota, for the advisory lock. Process 1 commits. Process 2 finds the link then,
    and gives back what it has spent.
    """
    settings.SHORTURL_LINKS_PER_DAY = 2 if is_limited else 0
    owner_id = user().pk

    def both_have_one_link(outcomes: list[Outcome]) -> None:
        links = [outcome.returned[0].key for outcome in outcomes]
        assert links == [ShortUrl.objects.get().key] * 2
        assert sorted(outcome.returned[1] for outcome in outcomes) == [False, True]
        assert spent() == [1] * is_limited

    interleave(
        partial(quotas.reuse, SPENDER, TARGET, owner_id=owner_id), invariant=both_have_one_link
    )


def send(key: str, *, is_killed: bool = False) -> str:
    """Send a create with an Idempotency-Key; return the key of the link in the answer."""

    def work() -> dict[str, Any]:
        body = create(key)
        if is_killed:
            raise Killed
        return {"status": 201, "body": body}

    return operations.answer("somebody", "the-key", "the fingerprint", work=work).body


def one_answer(outcomes: list[Outcome]) -> None:
    """Check that all who were answered have the same link, which is charged once."""
    answers = [outcome.returned for outcome in outcomes if outcome.returned]
    links = list(ShortUrl.objects.values_list("key", flat=True))
    assert answers == links * len(answers)
    assert spent() == [1] * len(links) == [1] * bool(answers)


def test_a_request_that_is_sent_twice(interleave: Interleave) -> None:
    """The work is done once. Link, charge and answer are committed together.

    Process 1 takes the lock of the key, and works. Process 2 is told that the request is in
    progress, or, after the COMMIT of process 1, gets its answer.
    """
    interleave(partial(send, "a"), partial(send, "b"), invariant=one_answer, expected=InFlight)


def test_a_request_whose_process_is_killed(interleave: Interleave) -> None:
    """Nothing is left of a killed process, and the repeated request does the work.

    Process 1 has created the link and is killed before it stores the answer. Its link, charge and
    lock are rolled back. Process 2 is told that the request is in progress, or does the work.
    """
    interleave(
        partial(send, "a", is_killed=True),
        partial(send, "b"),
        invariant=one_answer,
        expected=(InFlight, Killed),
    )
