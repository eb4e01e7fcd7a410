"""What accounts write, beside what can meet it, in every order of their statements."""

from collections.abc import Callable
from functools import partial
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import IntegrityError
from pytest_django import Settings

from pginterleave import Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from project.accounts.login import note_login
from project.accounts.pages import TokenForm
from shorturl.models import ApiToken
from shorturl.tests.callers import run

OLD, NEW = "the old one of them", "a new one for today"
CHANGE = {"old_password": OLD, "new_password1": NEW, "new_password2": NEW}


@pytest.fixture
def ann(interleave: Interleave) -> User:  # so that the rows are restored
    return User.objects.create_user("ann", password=OLD)


def posting(client: Client, path: str, **fields: Any) -> Callable[[], int]:
    return lambda: int(client.post(path, fields).status_code)


def logged_in(account: User) -> Client:
    client = Client()
    client.force_login(account)
    return client


def remove_account() -> None:
    run("remove_account", "ann")


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


def test_a_password_is_changed_by_one_session_from_two_networks(
    ann: User, interleave: Interleave, settings: Settings
) -> None:
    """One is told that it is set; the other one that it was changed, or to log in again."""
    settings.LOGIN_HASHES = 2  # and a network hashes one password at a time
    cookies = logged_in(ann).cookies

    def change(network: int) -> str:
        browser = Client(REMOTE_ADDR=f"10.{network}.0.1")
        browser.cookies = SimpleCookie(cookies)
        answer = browser.post("/account/password", CHANGE)
        return str(answer.get("Location") or answer.status_code)

    def one_is_told(outcomes: list[Outcome]) -> None:
        nothing_is_raised(outcomes)
        assert [outcome.returned for outcome in outcomes].count("/account") == 1, outcomes

    interleave(partial(change, 1), partial(change, 2), invariant=one_is_told)


def test_two_operators_invite_one_account(interleave: Interleave) -> None:
    def invite() -> None:
        run("invite", "ann")

    interleave(invite, expected=CommandError)
