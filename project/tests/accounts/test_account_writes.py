"""Every write to a row of auth_user, beside an operator's and beside each other.

interleave() runs each order of the processes' statements. Sessions are in cookies, which leaves out
statements that meet nothing here.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.core.management import CommandError
from pytest_django import Settings

from pginterleave import Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from project.management.commands.invite import make_password_link
from shorturl.limits import owners
from shorturl.tests.callers import run

OLD, NEW = "the old one of ann", "a new one for today"
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
Write = Callable[[User], Callable[[], object]]


@pytest.fixture(autouse=True)
def sessions_in_cookies(settings: Settings) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"


@pytest.fixture
def ann(interleave: Interleave) -> User:
    """Make an account of the staff, after `interleave`, which restores the rows."""
    User.objects.create_superuser("boss")
    return User.objects.create_superuser("ann", "ann@example.com", OLD)


def post(username: str, path: str, **fields: str) -> str:
    """Send a form in the browser of an account; return where the answer leads, or its status."""
    client = Client()
    client.force_login(User.objects.get(username=username), MODEL_BACKEND)
    response: Any = client.post(path, fields)
    return str(response.get("Location", response.status_code))


def chosen(password: str) -> dict[str, str]:
    return {"new_password1": password, "new_password2": password}


def change_password(ann: User, password: str = NEW) -> Callable[[], bool]:
    """Return a process that changes the password, and returns whether it was acknowledged."""
    fields = {"old_password": OLD, **chosen(password)}
    client = Client()
    client.force_login(ann, MODEL_BACKEND)
    logged_in = client.cookies

    def change() -> bool:
        client.cookies = copy(logged_in)
        answer: Any = client.post("/account/password_change/", fields)
        return bool(answer.get("Location") == "/account/password_change/done/")

    return change


def change_password_in_the_admin_of_oneself(ann: User) -> Callable[[], bool]:
    fields = {"old_password": OLD, **chosen(NEW)}
    return lambda: post("ann", "/admin/password_change/", **fields).endswith("/done/")


def choose_password(ann: User, password: str = NEW) -> Callable[[], bool]:
    """Return the process of a browser that has opened a link; it checks the page of a used one."""
    opened = Client()
    form = opened.get(urlsplit(make_password_link(ann)).path)["Location"]

    def choose() -> bool:
        client = Client()
        client.cookies = copy(opened.cookies)
        answer: Any = client.post(form, chosen(password))
        if "Location" in answer:
            return True
        assert "This link is no longer valid" in answer.content.decode()
        return False

    return choose


def log_in(ann: User) -> Callable[[], bool]:
    """Return a process that logs in, and returns whether the browser is logged in then."""

    def submit() -> bool:
        client = Client()
        client.post("/account/login/", {"username": "ann", "password": OLD})
        return "_auth_user_id" in client.session

    return submit


def log_in_with_a_new_hash(ann: User) -> Callable[[], bool]:
    """Return a log-in that stores the password anew, as after an update of Django."""
    # So short a salt is replaced.
    User.objects.filter(pk=ann.pk).update(password=make_password(OLD, salt="short"))
    return log_in(ann)


def set_password_in_the_admin(ann: User, password: str = NEW) -> Callable[[], bool]:
    fields = {"password1": password, "password2": password, "usable_password": "true"}
    path = f"/admin/auth/user/{ann.pk}/password/"
    return lambda: post("boss", path, **fields).endswith("/change/")


def set_password_by_command(ann: User, password: str = NEW) -> Callable[[], bool]:
    def set_password() -> bool:
        run("changepassword", "ann")
        return True

    return set_password


def edit_in_the_admin(ann: User, **changes: str) -> Callable[[], str]:
    """Return a process that sends the admin's form as it was shown, with another e-mail address."""
    shown = {"username": "ann", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    initial = {"username": "ann", "is_active": "True", "is_staff": "True", "is_superuser": "True"}
    initial["email"] = ann.email
    fields = {f"initial-{name}": value for name, value in initial.items()}
    fields |= shown | {"email": "new@example.com"} | changes
    return partial(post, "boss", f"/admin/auth/user/{ann.pk}/change/", **fields)


def add_to_a_group(ann: User) -> Callable[[], str]:
    group = Group.objects.create(name="editors")
    return edit_in_the_admin(ann, email=ann.email, groups=str(group.pk))


PASSWORDS: list[Write] = [
    change_password,
    change_password_in_the_admin_of_oneself,
    choose_password,
    set_password_in_the_admin,
    set_password_by_command,
]
WRITES: list[Write] = [
    *PASSWORDS,
    log_in,
    log_in_with_a_new_hash,
    edit_in_the_admin,
    add_to_a_group,
]


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer the question of `manage.py changepassword`."""
    monkeypatch.setattr("getpass.getpass", lambda prompt: NEW)


@pytest.mark.parametrize("write", WRITES)
def test_no_write_brings_back_what_an_operator_has_taken_away(
    ann: User, interleave: Interleave, write: Write
) -> None:
    """Process 1 reads the account. Process 2 deactivates and demotes it. Process 1 writes.

    A form that was shown before has the old values, too.
    """
    taken = dict.fromkeys(("is_active", "is_staff", "is_superuser"), False)

    def deactivate_and_demote() -> None:
        User.objects.filter(pk=ann.pk).update(**taken)

    def stays_taken(outcomes: list[Outcome]) -> None:
        assert User.objects.filter(pk=ann.pk, **taken).exists()

    interleave(write(ann), deactivate_and_demote, invariant=stays_taken, expected=CommandError)


@pytest.mark.parametrize("write", WRITES)
def test_no_write_brings_back_a_removed_account(
    ann: User, interleave: Interleave, write: Write
) -> None:
    """Process 1 reads the account. Process 2 removes it. Process 1 writes nothing, and says so."""

    def remove() -> None:
        owners.remove(User.objects.get(pk=ann.pk))

    def stays_removed(outcomes: list[Outcome]) -> None:
        assert not User.objects.filter(username="ann").exists()

    interleave(write(ann), remove, invariant=stays_removed, expected=CommandError)


OTHER = "another one for today"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (change_password, change_password),
        (choose_password, choose_password),
        (change_password, choose_password),
        (change_password, set_password_in_the_admin),
        (set_password_by_command, change_password),
    ],
)
def test_of_two_new_passwords_the_one_that_holds_was_acknowledged(
    ann: User, interleave: Interleave, one: Any, other: Any
) -> None:
    """Process 1 and process 2 read the account. Both write: the second one changes no row.

    So a link to choose a password works once, and the other browser gets the page of a used link.
    """

    def holds(outcomes: list[Outcome]) -> None:
        first, second = (outcome.returned is True for outcome in outcomes)
        account = User.objects.get(pk=ann.pk)
        assert (first and account.check_password(NEW)) or (second and account.check_password(OTHER))
        if one is other:
            assert first is not second

    interleave(one(ann), other(ann, OTHER), invariant=holds, expected=CommandError)


@pytest.mark.parametrize("new_password", PASSWORDS)
def test_the_new_hash_of_a_log_in_does_not_undo_a_new_password(
    ann: User, interleave: Interleave, new_password: Write
) -> None:
    """Process 1 checks the old password. Process 2 writes a new one. Process 1 writes no hash."""
    log_in_with_hash = log_in_with_a_new_hash(ann)
    set_password = new_password(User.objects.get(pk=ann.pk))

    def new_password_holds(outcomes: list[Outcome]) -> None:
        password = NEW if outcomes[1].returned is True else OLD
        assert User.objects.get(pk=ann.pk).check_password(password)

    interleave(log_in_with_hash, set_password, invariant=new_password_holds, expected=CommandError)


def test_two_log_ins_store_a_new_hash(ann: User, interleave: Interleave) -> None:
    """Process 1 and process 2 check the password. One hash is stored, and one log-in succeeds."""

    def the_password_holds(outcomes: list[Outcome]) -> None:
        assert any(outcome.returned for outcome in outcomes)
        assert User.objects.get(pk=ann.pk).check_password(OLD)

    interleave(log_in_with_a_new_hash(ann), processes=2, invariant=the_password_holds)


@pytest.mark.parametrize("write", [change_password, edit_in_the_admin])
def test_an_edit_of_another_column_is_kept(ann: User, interleave: Interleave, write: Write) -> None:
    """Both edits are done in every order: as one after the other."""
    edit_name = edit_in_the_admin(ann, email=ann.email, first_name="Ann")

    def both_are_written(outcomes: list[Outcome]) -> None:
        account = User.objects.get(pk=ann.pk)
        assert account.first_name == "Ann"
        assert account.check_password(NEW) or account.email == "new@example.com"

    interleave(write(ann), edit_name, invariant=both_are_written)
