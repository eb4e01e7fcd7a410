"""What accounts write, beside what can meet it.

interleave() runs each order of the processes' statements; one process alone is run twice at once.
Without an invariant, each order has to end as one process after the other does.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError
from django.db import transaction
from django.db.models.functions import Now
from django.http import HttpRequest
from pytest_django import Settings

from pginterleave import Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from project.accounts.pages import TokenForm
from shorturl.limits import owners
from shorturl.models import ApiToken
from shorturl.tests.callers import make_token, run

TOKENS = "/admin/shorturl/apitoken/"


@pytest.fixture
def ann(interleave: Interleave) -> User:
    """Make an account, after `interleave`, which restores the rows."""
    return User.objects.create_user("ann", password="a password of ann")


def post(account: User, path: str, /, **fields: Any) -> Callable[[], int]:
    """Return a process that posts a form in the browser of an account."""
    client = Client()
    client.force_login(account, "django.contrib.auth.backends.ModelBackend")
    return lambda: int(client.post(path, fields).status_code)


def remove_account(*options: str) -> None:
    run("remove_account", "ann", *options)


def test_two_tokens_of_the_same_name_are_made_at_once(ann: User, interleave: Interleave) -> None:
    interleave(*[post(ann, "/account", name="backup") for _ in range(2)])


def test_no_token_is_left_of_an_account_that_is_removed_meanwhile(
    ann: User, interleave: Interleave
) -> None:
    def save_token() -> None:
        form = TokenForm({"name": "backup"}, instance=ApiToken(user_id=ann.pk))
        assert form.is_valid()
        form.save()

    interleave(save_token, remove_account, expected=PermissionDenied)


@pytest.fixture
def boss(ann: User, settings: Settings) -> User:
    """Make an operator; sessions are in cookies, whose statements meet nothing here."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    return User.objects.create_superuser("boss")


def edit_token(boss: User) -> Callable[[], int]:
    """Return a process that renames the token in the admin, where it had all scopes."""
    scopes = [f"can_{scope}" for scope in ApiToken.SCOPES]
    shown = {f"initial-{name}": "True" for name in scopes} | {"initial-name": "token0"}
    path = f"{TOKENS}{ApiToken.objects.get().pk}/change/"
    return post(boss, path, name="renamed", **dict.fromkeys(scopes, "on"), **shown)


def test_an_edited_token_stays_revoked_and_limited(
    ann: User, boss: User, interleave: Interleave
) -> None:
    """Process 1 reads the token. Process 2 revokes it, and takes a scope away."""
    make_token(user=ann)

    def revoke_and_limit() -> None:
        ApiToken.objects.update(revoked_at=Now(), can_delete=False)

    def stays_revoked(outcomes: list[Outcome]) -> None:
        token = ApiToken.objects.get()
        assert token.revoked_at
        assert (token.name, token.can_delete) == ("renamed", False)

    interleave(edit_token(boss), revoke_and_limit, invariant=stays_revoked)


@pytest.mark.exhaustive
def test_no_token_that_is_edited_in_the_admin_outlives_its_account(
    ann: User, boss: User, interleave: Interleave
) -> None:
    make_token(user=ann)

    @transaction.atomic
    def remove() -> None:
        owners.lock(User.objects.filter(pk=ann.pk))
        User(pk=ann.pk).delete()

    def no_token_is_left(outcomes: list[Outcome]) -> None:
        assert not ApiToken.objects.exists()

    interleave(edit_token(boss), remove, invariant=no_token_is_left)


def test_a_removed_group_is_not_brought_back(ann: User, boss: User, interleave: Interleave) -> None:
    """Process 1 reads the group, to rename it. Process 2 deletes it, as the admin does."""
    group = Group.objects.create(name="editors")
    groups = admin.site.get_model_admin(Group)
    delete = partial(groups.delete_queryset, HttpRequest(), Group.objects.filter(pk=group.pk))

    def is_gone(outcomes: list[Outcome]) -> None:
        assert not Group.objects.exists()

    rename = post(boss, f"/admin/auth/group/{group.pk}/change/", name="renamed")
    interleave(rename, delete, invariant=is_gone)


def test_two_processes_revoke_one_token(ann: User, interleave: Interleave) -> None:
    make_token(user=ann)
    path = f"/account/tokens/{ApiToken.objects.get().pk}/revoke"
    interleave(*[post(ann, path) for _ in range(2)])


def test_two_operators_invite_one_account(interleave: Interleave) -> None:
    def invite() -> None:
        run("invite", "ann")

    interleave(invite, expected=CommandError)
