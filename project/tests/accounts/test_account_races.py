"""What accounts write, beside what can meet it.

interleave() runs each order of the processes' statements; one process alone is run twice at once.
Without an invariant, each order has to end as one process after the other does.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError
from django.db import IntegrityError

from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from project.accounts.pages import TokenForm
from shorturl import operations
from shorturl.models import ApiToken
from shorturl.tests.callers import TARGET, make_token, run


@pytest.fixture
def ann(interleave: Interleave) -> User:
    """Make an account, after `interleave`, which restores the rows."""
    return User.objects.create_user("ann", password="a password of ann")


def post(account: User, path: str, **fields: Any) -> Callable[[], int]:
    """Return a process that posts a form in the browser of an account."""
    client = Client()
    client.force_login(account)
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


def test_two_processes_revoke_one_token(ann: User, interleave: Interleave) -> None:
    make_token(user=ann)
    path = f"/account/tokens/{ApiToken.objects.get().pk}/revoke"
    interleave(*[post(ann, path) for _ in range(2)])


def test_two_operators_invite_one_account(interleave: Interleave) -> None:
    def invite() -> None:
        run("invite", "ann")

    interleave(invite, expected=CommandError)


def test_all_links_of_a_removed_account_go_to_another_also_a_concurrent_one(
    ann: User, interleave: Interleave
) -> None:
    """The last link is created before the account is removed, or not at all."""
    User.objects.create_user("bob")
    operations.create(TARGET, key="first", owner_id=ann.pk)

    def create_last_link() -> None:
        operations.create(TARGET, key="last", owner_id=ann.pk)

    hand_over_and_remove = partial(remove_account, "--links-to", "bob")
    interleave(hand_over_and_remove, create_last_link, expected=IntegrityError)
