"""Writes that no race of the lab explores, each beside what can meet it.

Without an invariant, each order of their statements has to end as one after the other does.
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

from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.limits import owners
from shorturl.management.commands import demo
from shorturl.management.commands.tidy import OLD_ROWS, remove_in_batches
from shorturl.models import ApiToken, IdempotencyRecord, ShortUrl
from shorturl.strategies.resolving import combined
from shorturl.tests.callers import TARGET, bearer, run, user

RECEIVER = "https://receiver.example/"


@pytest.fixture(autouse=True)
def sessions_in_cookies(settings: Settings) -> None:
    """Leave out the statements for sessions, which meet nothing here."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"


def command(*arguments: str) -> Callable[[], None]:
    """Return a process that runs a command of manage.py; what it prints has random parts."""

    def process() -> None:
        run(*arguments)

    return process


def admin(path: str, **fields: Any) -> Callable[[], int]:
    """Return a process of a superuser's own, who posts a form of the admin."""
    client = Client()
    client.force_login(User.objects.create_superuser(f"boss{User.objects.count()}"))
    return lambda: int(client.post(f"/admin/{path}", fields).status_code)


remove_account = command("remove_account", "user0")


def test_an_account_is_removed_beside_a_create(interleave: Interleave) -> None:
    owner = user()
    interleave(
        remove_account,
        lambda: operations.create(TARGET, key="a", owner_id=owner.pk).key,
        expected=IntegrityError,
    )


@pytest.mark.exhaustive
def test_an_account_is_removed_beside_a_handing_over(interleave: Interleave) -> None:
    """The account gets a link while it is removed, which stays without an owner or as it was."""
    heir = user()
    operations.create(TARGET, key="a", owner_id=user().pk)
    links = ShortUrl.objects.filter(key="a")
    interleave(remove_account, lambda: owners.hand_over(links, heir.pk), expected=IntegrityError)


@pytest.mark.exhaustive
def test_an_account_is_removed_beside_a_form_that_chooses_it(interleave: Interleave) -> None:
    fields = {"name": "backup", "user": user().pk}
    interleave(
        remove_account,
        admin("shorturl/apitoken/add/", **fields),
        try_again=lambda outcome: outcome.returned == HTTPStatus.BAD_REQUEST,
    )


def test_a_token_is_revoked_twice(interleave: Interleave) -> None:
    bearer(name="backup")
    interleave(command("token", "revoke", "backup"), expected=CommandError)


def test_a_token_is_changed_and_revoked_in_the_admin(interleave: Interleave) -> None:
    bearer(name="backup")
    token = ApiToken.objects.get()
    interleave(
        admin(f"shorturl/apitoken/{token.pk}/change/", name="renamed"),
        admin("shorturl/apitoken/", action="revoke", _selected_action=token.pk),
    )


def test_two_add_a_token_of_the_same_name_in_the_admin(interleave: Interleave) -> None:
    interleave(
        *(admin("shorturl/apitoken/add/", name="backup") for _ in range(2)),
        try_again=lambda outcome: outcome.returned == HTTPStatus.BAD_REQUEST,
    )


@pytest.mark.parametrize("beside", ["delete", "follow"])
def test_an_owner_deletes_several_links(beside: str, interleave: Interleave) -> None:
    owner = user()
    for key in "ab":
        operations.create(TARGET, key=key, owner_id=owner.pk)

    def delete(*keys: str) -> Callable[[], int]:
        client = Client()
        client.force_login(owner)
        return lambda: int(client.post("/links/delete/selected", {"key": keys}).status_code)

    others: dict[str, Callable[[], object]] = {
        "delete": delete("b", "a"),
        "follow": lambda: combined.resolve("b").target_url,
    }
    interleave(delete("a", "b"), others[beside])


@pytest.mark.parametrize("beside", ["subscribe", "unsubscribe", "create"])
def test_a_receiver_is_added(beside: str, interleave: Interleave) -> None:
    def add() -> None:
        subscribe(RECEIVER)

    others: dict[str, Callable[[], object]] = {
        "subscribe": add,
        "unsubscribe": partial(unsubscribe, RECEIVER),
        "create": lambda: operations.create(TARGET, key="a").key,
    }
    try:
        # The rows are restored, and the triggers are not.
        interleave(add, others[beside], setup=partial(unsubscribe, RECEIVER))
    finally:
        unsubscribe(RECEIVER)


@pytest.mark.parametrize("other", [("b.example", "a.example"), ("a.example", "--lift")])
def test_a_domain_is_banned(other: tuple[str, ...], interleave: Interleave) -> None:
    ban = command("ban", "a.example", "b.example")
    interleave(ban, command("ban", *other), expected=CommandError)


def test_old_answers_are_forgotten_twice(interleave: Interleave) -> None:
    IdempotencyRecord.objects.create(caller="a", key="b", status=201, body="")
    IdempotencyRecord.objects.update(kept_at=timezone.now() - timedelta(days=2))
    interleave(partial(remove_in_batches, OLD_ROWS["answer"]))


def test_demo_links_are_made_twice(
    interleave: Interleave, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.LOCAL = True
    monkeypatch.setitem(demo.DEMO, "links", [{**demo.DEMO["links"][0], "busiest_day": 0}])
    interleave(command("demo"))
    assert not ShortUrl.objects.exists()
