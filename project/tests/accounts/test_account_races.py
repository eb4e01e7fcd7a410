"""What accounts write, beside what can meet it, in every order of their statements."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import IntegrityError

from pginterleave import Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from project.accounts.login import note_login
from project.accounts.pages import TokenForm
from shorturl import operations
from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import TARGET, run

KEYS = ("first", "last")


@pytest.fixture
def ann(interleave: Interleave) -> User:  # so that the rows are restored
    return User.objects.create_user("ann", password="a password of ann")


def posting(client: Client, path: str, **fields: Any) -> Callable[[], int]:
    return lambda: int(client.post(path, fields).status_code)


def logged_in(account: User) -> Client:
    client = Client()
    client.force_login(account)
    return client


def remove_account(*options: str) -> None:
    run("remove_account", "ann", *options)


def test_a_login_beside_the_removal_of_the_account(ann: User, interleave: Interleave) -> None:
    """The password was right, so the login succeeds, and the next request is anonymous."""
    interleave(partial(note_login, None, ann), remove_account, invariant=nothing_is_raised)


def nothing_is_raised(outcomes: list[Outcome]) -> None:
    assert [outcome.raised for outcome in outcomes] == [None] * len(outcomes)


def test_two_make_a_token_of_the_same_name(ann: User, interleave: Interleave) -> None:
    interleave(*(posting(logged_in(ann), "/account", name="backup") for _ in range(2)))


def test_a_token_beside_the_removal_of_the_account(ann: User, interleave: Interleave) -> None:
    def both_are_gone(_: list[Outcome]) -> None:
        assert not User.objects.exists()
        assert not ApiToken.objects.exists()

    def make() -> None:
        form = TokenForm({"name": "backup"}, instance=ApiToken(user_id=ann.pk))
        assert form.is_valid()
        form.save()

    interleave(make, remove_account, invariant=both_are_gone, expected=IntegrityError)


def test_a_token_is_revoked_twice(ann: User, interleave: Interleave) -> None:
    token = ApiToken(name="backup", user=ann)
    token.draw()
    token.save()
    path = f"/account/tokens/{token.pk}/revoke"
    interleave(*(posting(logged_in(ann), path) for _ in range(2)))


def test_two_operators_invite_one_account(interleave: Interleave) -> None:
    def invite() -> None:
        run("invite", "ann")

    interleave(invite, expected=CommandError)


def test_a_leavers_links_go_to_another_account_beside_a_last_one(
    ann: User, interleave: Interleave
) -> None:
    """The last link is created before the account is removed, or not at all."""
    bob = User.objects.create_user("bob")
    operations.create(TARGET, key="first", owner_id=ann.pk)

    def bob_has_all(outcomes: list[Outcome]) -> None:
        links = dict(ShortUrl.objects.values_list("key", "owner"))
        expected = {"first": bob.pk} if outcomes[1].raised else dict.fromkeys(KEYS, bob.pk)
        assert links == expected

    interleave(
        partial(remove_account, "--links-to", "bob"),
        lambda: operations.create(TARGET, key="last", owner_id=ann.pk),
        invariant=bob_has_all,
        expected=IntegrityError,
    )
