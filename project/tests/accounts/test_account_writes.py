"""Every write to a row of auth_user, beside an operator's and beside each other.

interleave() runs each order of the processes' statements. Sessions are in cookies, and failed
log-ins are not counted, which leaves out statements that meet nothing here.
"""

from collections.abc import Callable
from copy import copy
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import Group, User
from django.core.management import CommandError
from pytest_django import Settings

from pginterleave import Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave
from project.management.commands.invite import make_password_link
from shorturl.limits import owners
from shorturl.tests.callers import run

OLD, NEW, OTHER = "the old one of ann", "a new one for today", "another one for today"
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
TAKEN = ("is_active", "is_staff", "is_superuser")  # what an operator takes away
Write = Callable[[User], Callable[[], str]]


@pytest.fixture(autouse=True)
def fewer_statements(settings: Settings) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    settings.AXES_ENABLED = False


@pytest.fixture
def ann(interleave: Interleave) -> User:
    """Make an account of the staff, after `interleave`, which restores the rows."""
    User.objects.create_superuser("boss")
    return User.objects.create_superuser("ann", "ann@example.com", OLD)


def post(account: User, path: str, **fields: str) -> Callable[[], str]:
    """Return the process of a logged-in browser, which sends a form.

    It returns where the answer leads, or the text of a page.
    """
    logged_in = Client()
    logged_in.force_login(account, MODEL_BACKEND)

    def send() -> str:
        return answer_to(logged_in, path, fields)

    return send


def answer_to(browser: Client, path: str, fields: dict[str, str]) -> str:
    """Send a form with the cookies of a browser, which keeps them for the next schedule."""
    client = Client()
    client.cookies = copy(browser.cookies)
    response: Any = client.post(path, fields)
    return str(response.get("Location") or response.content.decode())


def chosen(password: str) -> dict[str, str]:
    return {"new_password1": password, "new_password2": password}


def change_password(ann: User, password: str = NEW) -> Callable[[], str]:
    return post(ann, "/account/password_change/", old_password=OLD, **chosen(password))


def change_password_in_the_admin(ann: User) -> Callable[[], str]:
    return post(ann, "/admin/password_change/", old_password=OLD, **chosen(NEW))


def choose_password(ann: User, password: str = NEW) -> Callable[[], str]:
    """Return the process of a browser that has opened an e-mailed link, or an invitation."""
    link = make_password_link(User.objects.get(pk=ann.pk))
    browser = Client()
    form: Any = browser.get(urlsplit(link).path)
    return lambda: answer_to(browser, form["Location"], chosen(password))


def log_in(ann: User) -> Callable[[], str]:
    return lambda: answer_to(Client(), "/account/login/", {"username": "ann", "password": OLD})


def log_in_with_a_new_hash(ann: User) -> Callable[[], str]:
    """Return a log-in that stores the password anew, as after an update of Django."""
    # So short a salt is replaced.
    User.objects.filter(pk=ann.pk).update(password=make_password(OLD, salt="short"))
    return log_in(ann)


def set_password_in_the_admin(ann: User, password: str = NEW) -> Callable[[], str]:
    fields = {"password1": password, "password2": password, "usable_password": "true"}
    return post(User.objects.get(username="boss"), f"/admin/auth/user/{ann.pk}/password/", **fields)


def set_password_by_command(ann: User) -> Callable[[], str]:
    return lambda: run("changepassword", "ann").output


def edit_in_the_admin(ann: User, **changes: str) -> Callable[[], str]:
    """Return a process that sends the admin's form as it was shown, with another e-mail address."""
    fields = {f"initial-{name}": "True" for name in TAKEN}
    fields |= {"initial-username": "ann", "initial-email": ann.email}
    fields |= {"username": "ann", **dict.fromkeys(TAKEN, "on"), "email": "new@example.com"}
    boss = User.objects.get(username="boss")
    return post(boss, f"/admin/auth/user/{ann.pk}/change/", **(fields | changes))


def add_to_a_group(ann: User) -> Callable[[], str]:
    group = Group.objects.create(name="editors")
    return edit_in_the_admin(ann, email=ann.email, groups=str(group.pk))


PASSWORDS: list[Write] = [
    change_password,
    change_password_in_the_admin,
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


# More statements, and a minute for those of the removal on a busy machine.
SLOW = (set_password_in_the_admin, set_password_by_command, edit_in_the_admin, add_to_a_group)


@pytest.fixture(autouse=True)
def answered_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer the question of `manage.py changepassword`, which compares no migrations before."""
    monkeypatch.setattr(changepassword.Command, "requires_migrations_checks", False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: NEW)


@pytest.mark.parametrize("write", WRITES)
def test_no_write_brings_back_what_an_operator_has_taken_away(
    ann: User, interleave: Interleave, write: Write
) -> None:
    """Process 1 reads the account. Process 2 deactivates and demotes it. Process 1 writes.

    A form that was shown before has the old values, too.
    """
    taken = dict.fromkeys(TAKEN, False)

    def deactivate_and_demote() -> None:
        User.objects.filter(username="ann").update(**taken)

    def stays_taken(outcomes: list[Outcome]) -> None:
        assert User.objects.filter(pk=ann.pk, **taken).exists()

    interleave(write(ann), deactivate_and_demote, invariant=stays_taken, expected=CommandError)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(write, marks=[pytest.mark.exhaustive] if write in SLOW else [])
        for write in WRITES
    ],
)
def test_no_write_brings_back_a_removed_account(
    ann: User, interleave: Interleave, write: Write
) -> None:
    """Process 1 reads the account. Process 2 removes it. Process 1 writes nothing, and says so."""

    def remove() -> None:
        owners.remove(User.objects.get(username="ann"))

    def stays_removed(outcomes: list[Outcome]) -> None:
        assert not User.objects.filter(username="ann").exists()

    interleave(write(ann), remove, invariant=stays_removed, expected=CommandError)


def is_acknowledged(outcome: Outcome) -> bool:
    """Return whether a process was told that its password is set."""
    answer = str(outcome.returned)
    return "/done/" in answer or "/change/" in answer or "successfully" in answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (change_password, change_password),
        (choose_password, choose_password),
        (change_password, choose_password),
        (set_password_in_the_admin, choose_password),
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
        account = User.objects.get(pk=ann.pk)
        done = [is_acknowledged(outcome) for outcome in outcomes]
        passwords = [account.check_password(password) for password in (NEW, OTHER)]
        assert sum(passwords) == 1
        assert done[passwords.index(True)]
        if one is other:
            assert sum(done) == 1
        if other is choose_password and not done[1]:
            assert "This link is no longer valid" in str(outcomes[1].returned)

    interleave(one(ann), other(ann, OTHER), invariant=holds, expected=CommandError)


@pytest.mark.parametrize("new_password", PASSWORDS)
def test_the_new_hash_of_a_log_in_does_not_undo_a_new_password(
    ann: User, interleave: Interleave, new_password: Write
) -> None:
    """Process 1 checks the old password. Process 2 writes a new one. Process 1 writes no hash."""
    log_in = log_in_with_a_new_hash(ann)

    def acknowledged_password_holds(outcomes: list[Outcome]) -> None:
        password = NEW if is_acknowledged(outcomes[1]) else OLD
        assert User.objects.get(pk=ann.pk).check_password(password)

    interleave(
        log_in,
        new_password(User.objects.get(pk=ann.pk)),
        invariant=acknowledged_password_holds,
        expected=CommandError,
    )


def test_two_log_ins_store_a_new_hash(ann: User, interleave: Interleave) -> None:
    """Process 1 and process 2 check the password. One hash is stored, and one log-in succeeds."""

    def the_password_holds(outcomes: list[Outcome]) -> None:
        assert any(outcome.returned == "/" for outcome in outcomes)
        assert User.objects.get(pk=ann.pk).check_password(OLD)

    interleave(log_in_with_a_new_hash(ann), processes=2, invariant=the_password_holds)


@pytest.mark.parametrize(
    "write",
    [change_password, pytest.param(edit_in_the_admin, marks=pytest.mark.exhaustive)],
)
def test_an_edit_of_another_column_is_kept(ann: User, interleave: Interleave, write: Write) -> None:
    """Both edits are done in every order: as one after the other."""
    edit_name = edit_in_the_admin(ann, email=ann.email, first_name="Ann")

    def both_are_written(outcomes: list[Outcome]) -> None:
        account = User.objects.get(pk=ann.pk)
        assert account.first_name == "Ann"
        assert account.check_password(NEW) or account.email == "new@example.com"

    interleave(write(ann), edit_name, invariant=both_are_written)
