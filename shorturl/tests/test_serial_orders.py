"""Writes that no race of the lab explores, each beside what can meet it.

interleave() runs each order of the processes' statements; one process alone is run twice at once.
Without an invariant, each order has to end as one process after the other does: with the same
rows, and with the same return values.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import IntegrityError
from django.utils import timezone
from pytest_django import Settings

from lab.management.commands import demo
from pginterleave import Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.limits import owners
from shorturl.management.commands.tidy import OLD_ROWS, remove_in_batches
from shorturl.models import ApiToken, BannedDomain, IdempotencyRecord, ShortUrl, Visit
from shorturl.tests.callers import TARGET, create_link, make_token, run, user
from shorturl.tests.event_loop import count_hits

RECEIVER = "https://receiver.example/"
PERSON = Visit(is_bot=False)
TOKENS = "/admin/shorturl/apitoken/"
Process = Callable[[], object]


@pytest.fixture(autouse=True)
def sessions_in_cookies(settings: Settings) -> None:
    """Leave out the statements for sessions, which meet nothing here."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"


def command(*arguments: str) -> Process:
    """Return a process that runs a command of manage.py, and does not return what it prints."""

    def process() -> None:
        run(*arguments)

    return process


def post(person: User, path: str, **fields: Any) -> Process:
    """Return a process that posts a form in the person's browser, and returns the status."""
    client = Client()
    client.force_login(person)
    return lambda: client.post(path, fields).status_code


def post_in_admin(path: str, **fields: Any) -> Process:
    superuser = User.objects.create_superuser(f"admin{User.objects.count()}")
    return post(superuser, path, **fields)


def is_refused(outcome: Outcome) -> bool:
    """Whether a form was refused because of a concurrent change; then it is posted again."""
    return bool(outcome.returned == HTTPStatus.BAD_REQUEST)


def create(owner_id: int | None = None) -> str:
    return operations.create(TARGET, key="a", owner_id=owner_id).key


def create_of(account: User, other: User) -> Process:
    create_link("first", owner=account)
    return partial(create, account.pk)


def hand_over_to(account: User, other: User) -> Process:
    create_link(owner=other)
    return partial(owners.hand_over, ShortUrl.objects.filter(key="known"), account.pk)


def add_token_of(account: User, other: User) -> Process:
    return post_in_admin(f"{TOKENS}add/", name="backup", user=account.pk)


@pytest.mark.parametrize(
    ("options", "make_process"),
    [
        ([], create_of),
        pytest.param(["--links-to", "user1"], create_of, marks=pytest.mark.exhaustive),
        pytest.param([], hand_over_to, marks=pytest.mark.exhaustive),
        pytest.param([], add_token_of, marks=pytest.mark.exhaustive),
    ],
)
def test_an_account_is_removed_beside_what_it_gets(
    interleave: Interleave, options: list[str], make_process: Callable[[User, User], Process]
) -> None:
    """Process 2 raises IntegrityError if the account is gone, or its form is refused."""
    account, other = user(), user()
    interleave(
        command("remove_account", account.username, *options),
        make_process(account, other),
        expected=IntegrityError,
        try_again=is_refused,
    )


def test_two_tokens_of_the_same_name_are_created(interleave: Interleave) -> None:
    """Both processes see that the name is free. A constraint refuses the token of the second."""
    interleave(command("token", "create", "backup"), expected=CommandError)


def test_a_token_is_changed_and_revoked_in_the_admin(interleave: Interleave) -> None:
    make_token()
    token = ApiToken.objects.get()
    interleave(
        post_in_admin(f"{TOKENS}{token.pk}/change/", name="renamed"),
        post_in_admin(TOKENS, action="revoke", _selected_action=token.pk),
    )


def test_two_tokens_of_the_same_name_are_added_in_the_admin(interleave: Interleave) -> None:
    processes = [post_in_admin(f"{TOKENS}add/", name="backup") for _ in range(2)]
    interleave(*processes, try_again=is_refused)


def test_two_links_are_deleted_together_in_opposite_orders(interleave: Interleave) -> None:
    owner = user()
    for key in "ab":
        create_link(key, owner=owner)
    delete = partial(post, owner, "/links/delete/selected")
    interleave(delete(key=["a", "b"]), delete(key=["b", "a"]))


def test_two_links_are_deleted_together_beside_a_hit_of_each(interleave: Interleave) -> None:
    """The deletion locks a, and then b. One statement counts b alone and skips a, or both or none.

    The hits are of two people, so the hit of b may come before the deletion, and that of a after.
    """
    owner = user()
    for key in "ab":
        create_link(key, owner=owner)
    delete = post(owner, "/links/delete/selected", key=["a", "b"])

    def read_hits() -> dict[str, int]:
        return dict(ShortUrl.objects.values_list("key", "hits"))

    def delete_and_read_hits() -> dict[str, int]:
        assert delete() == HTTPStatus.SEE_OTHER
        return read_hits()

    def follow_both() -> dict[str, int]:
        links = count_hits(("a", PERSON), ("b", PERSON))
        return {key: int(link is not None) for key, link in zip("ab", links, strict=True)}

    def check_hits(outcomes: list[Outcome]) -> str:
        """Check that acknowledged hits are counted, and none after the deletion has returned."""
        at_deletion, acknowledged = (outcome.returned for outcome in outcomes)
        hits = read_hits()
        is_right = hits == at_deletion == acknowledged
        return "" if is_right else f"{hits}, {at_deletion} at the deletion, {acknowledged} answered"

    interleave(delete_and_read_hits, follow_both, invariant=check_hits)


def add_receiver() -> None:
    subscribe(RECEIVER)


remove_receiver = partial(unsubscribe, RECEIVER)


@pytest.mark.parametrize(
    "beside", [add_receiver, remove_receiver, create], ids=["add", "remove", "create a link"]
)
def test_a_receiver_is_added_beside_another_write(beside: Process, interleave: Interleave) -> None:
    """A receiver has triggers, which interleave() does not undo: it restores only rows."""
    try:
        interleave(add_receiver, beside, setup=remove_receiver)
    finally:
        remove_receiver()


@pytest.mark.parametrize(
    "beside",
    [
        command("ban", "b.example", "a.example"),
        BannedDomain.objects.filter(domain="a.example").delete,
    ],
    ids=["ban", "lift"],
)
def test_two_domains_are_banned_beside_a_ban_in_the_opposite_order_or_a_lift(
    beside: Process, interleave: Interleave
) -> None:
    interleave(command("ban", "a.example", "b.example"), beside)


def test_two_processes_remove_old_answers(interleave: Interleave) -> None:
    IdempotencyRecord.objects.create(caller="a", key="b", status=201, body="")
    IdempotencyRecord.objects.update(kept_at=timezone.now() - timedelta(days=2))
    interleave(partial(remove_in_batches, OLD_ROWS["answer"]))


def test_two_processes_make_the_demo_links(
    interleave: Interleave, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.LOCAL = True
    link_without_visits = {**demo.DEMO["links"][0], "busiest_day": 0}
    monkeypatch.setitem(demo.DEMO, "links", [link_without_visits])
    monkeypatch.setattr(demo, "roll_up_visits", lambda: None)  # explored in races/test_visits.py
    interleave(command("demo"))
