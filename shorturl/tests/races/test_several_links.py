"""Several links are deleted, given away and banned at once, and one is changed and deleted at once.

Each order of the statements is run. The links are locked in the order of their keys, so no two
processes wait for each other. Link b is older than a: by their ids the order would be another.
"""

from collections.abc import Callable
from functools import partial

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from pytest_django import Settings

from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from shorturl import bans
from shorturl.limits import owners
from shorturl.models import ShortUrl
from shorturl.tests.callers import OTHER, TARGET, bearer, change, create_link, make_token

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
Process = Callable[[], object]


@pytest.fixture(autouse=True)
def sessions_in_cookies(settings: Settings) -> None:
    """Leave out the statements of sessions, which meet nothing here."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"


@pytest.fixture
def ann(interleave: Interleave) -> User:
    """Make an account with two links, after `interleave`, which restores the rows."""
    ann = User.objects.create_superuser("ann")
    for key in "ba":
        create_link(key, owner=ann)
    return ann


def post(account: User, path: str, **fields: object) -> Process:
    """Return a process that sends a form in the browser of an account, and returns the status."""
    client = Client()
    client.force_login(account, MODEL_BACKEND)
    return lambda: client.post(path, fields).status_code


def delete_selected(ann: User) -> Process:
    return post(ann, "/links/delete/selected", key=["a", "b"])


def hand_over(ann: User) -> Process:
    return partial(owners.hand_over, ShortUrl.objects.filter(owner=ann), None)


def remove_in_the_admin(ann: User) -> Process:
    """Return the removal by the admin, without its page, whose statements meet nothing here."""
    accounts = admin.site.get_model_admin(User)
    return partial(accounts.delete_queryset, HttpRequest(), User.objects.filter(pk=ann.pk))


def delete_in_the_admin(ann: User) -> Process:
    links = admin.site.get_model_admin(ShortUrl)
    return partial(links.delete_queryset, HttpRequest(), ShortUrl.objects.all())


def ban(ann: User) -> Process:
    """Return the part of a ban that writes links."""
    return partial(bans.expire_links, frozenset(("example.com",)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (hand_over, delete_selected),
        (remove_in_the_admin, delete_selected),
        (ban, delete_selected),
        (ban, hand_over),
        (delete_in_the_admin, hand_over),
    ],
)
def test_two_writes_of_several_links_do_not_deadlock(
    interleave: Interleave,
    ann: User,
    one: Callable[[User], Process],
    other: Callable[[User], Process],
) -> None:
    """Process 1 locks a. Process 2 waits for a, with no lock, until process 1 has b and commits."""
    interleave(one(ann), other(ann), invariant=lambda outcomes: None)


def test_a_change_is_not_answered_with_404_by_a_delete_that_comes_after_it(
    interleave: Interleave, ann: User
) -> None:
    """Process 1 changes the link, which locks it. Process 2 deletes it once process 1 has read it.

    Without the lock process 1 would change the link, and answer that there is none.
    """
    headers = bearer(make_token(user=ann))

    def change_link() -> int:
        return int(change(Client(headers=headers), "a", {"target_url": OTHER}).status_code)

    def delete_link() -> int:
        return Client(headers=headers).delete("/api/links/a").status_code

    assert ShortUrl.objects.get(key="a").target_url == TARGET
    interleave(change_link, delete_link)
