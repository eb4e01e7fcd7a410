"""Passwords that users choose: after a login, by an e-mailed link, or by an invitation."""

import logging
import re
import runpy
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from threading import BoundedSemaphore, Event
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core import mail
from django.core.mail import EmailMessage
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from pginterleave import Exploration, Outcome, explore
from project.accounts import reset, urls
from project.accounts.passwords import ChangeForm, ChooseForm, PasswordReplaced
from project.accounts.reset import MAILS_PER_DAY
from shorturl.models import QuotaUsage
from shorturl.tests.callers import text

pytestmark = pytest.mark.django_db
OLD, NEW, OTHER = "the old one of them", "a new one for today", "another one for today"
TIMEOUT = 30  # seconds


def chosen(password: str) -> dict[str, str]:
    return {"new_password1": password, "new_password2": password}


def invite(*arguments: str) -> str:
    """Return the path of an invitation's link."""
    out = StringIO()
    call_command("invite", "ann", *arguments, stdout=out, stderr=StringIO())
    link = urlsplit(out.getvalue().strip())
    assert (link.scheme, link.netloc) == ("http", "127.0.0.1:8000")
    return link.path


def open_link(path: str) -> tuple[Client, str]:
    """Return a browser with the form of a link, and the form's path, without the token."""
    client = Client()
    form = client.get(path)
    assert form.status_code == 302
    assert "Choose a password" in text(client.get(form["Location"]))
    return client, form["Location"]


# --- Logged in -----------------------------------------------------------------------------------


def test_changing_ends_the_other_sessions_and_not_this_one() -> None:
    ann = User.objects.create_user("ann", password=OLD)
    here, there = Client(), Client()
    here.force_login(ann)
    there.force_login(ann)
    wrong = here.post("/account/password", {"old_password": "wrong", **chosen(NEW)})
    assert "Your old password was entered incorrectly." in text(wrong)
    page = here.post("/account/password", {"old_password": OLD, **chosen(NEW)}, follow=True)
    assert "Your password is set." in text(page)
    assert there.get("/account").status_code == 302
    assert User.objects.get().check_password(NEW)


def test_changing_does_not_undo_a_withdrawal_of_the_staff_status() -> None:
    ann = User.objects.create_user("ann", password=OLD, is_staff=True)
    form = ChangeForm(ann, {"old_password": OLD, **chosen(NEW)})
    assert form.is_valid()
    User.objects.update(is_staff=False)
    form.save()
    ann.refresh_from_db()
    assert not ann.is_staff


# --- Invited -------------------------------------------------------------------------------------


def test_an_invitation_makes_one_account_once() -> None:
    path = invite()
    client, form = open_link(path)
    assert client.post(form, chosen("12345")).status_code == 200
    page = client.post(form, chosen(NEW), follow=True)
    assert page.redirect_chain == [("/links", 302)]
    assert page.context["user"].username == "ann"  # logged in
    assert "Your password is set." in text(page)
    assert User.objects.get().check_password(NEW)
    for used in (path, form):
        response = client.get(used)
        assert response.status_code == 410
        assert "This link is no longer valid" in response.content.decode()
    assert client.post("/login", {"username": "ann", "password": NEW}).status_code == 302


def test_an_invitation_expires_and_needs_an_active_account(settings: Settings) -> None:
    client, form = open_link(path := invite())
    User.objects.update(is_active=False)
    assert client.post(form, chosen(NEW)).status_code == 409
    User.objects.update(is_active=True)
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert Client().get(path).status_code == 410
    settings.PASSWORD_RESET_TIMEOUT = 60
    User.objects.all().delete()
    assert Client().get(path).status_code == 410
    assert Client().get("/account/password/x/y-z").status_code == 410


def test_only_an_account_without_a_password_is_invited_again() -> None:
    first, second = invite(), invite("--email", "ann@example.com")
    client, form = open_link(first)
    client.post(form, chosen(NEW))
    assert Client().get(second).status_code == 410
    with pytest.raises(CommandError, match="An account of this name exists"):
        invite()
    with pytest.raises(CommandError, match="'a b' cannot be invited: Enter a valid username"):
        call_command("invite", "a b")


def two_use_a_link(form: "type[SetPasswordForm[User]]") -> Exploration:
    """Explore two requests with one link, which do the same as Django's view."""
    link: list[str] = []

    def setup() -> None:
        User.objects.all().delete()
        link[:] = [default_token_generator.make_token(User.objects.create_user("ann"))]

    def use(password: str) -> str:
        account = User.objects.get()
        if not default_token_generator.check_token(account, link[0]):
            raise PasswordReplaced
        bound = form(account, chosen(password))
        assert bound.is_valid()
        bound.save()
        return password

    def one_was_told(outcomes: list[Outcome]) -> None:
        told = [outcome.returned for outcome in outcomes if not outcome.raised]
        assert len(told) == 1, "both were told that their password is set"
        assert User.objects.get().check_password(str(told[0]))

    both = [partial(use, NEW), partial(use, OTHER)]
    return explore(both, setup=setup, invariant=one_was_told, expected=PasswordReplaced)


@pytest.mark.django_db(transaction=True)
def test_one_of_two_requests_with_a_link_succeeds_in_every_schedule() -> None:
    """With Django's form both succeed, and the first password is lost."""
    two_use_a_link(ChooseForm).assert_safe()
    assert two_use_a_link(SetPasswordForm).violations


# --- By e-mail -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset, "PAUSE", 0)


def ask(email: str, **headers: str) -> str:
    """Ask for an e-mail; return the page that answers."""
    client = Client(headers=headers)
    return text(client.post("/account/reset", {"email": email}, follow=True))


def all_sent() -> None:
    """Wait until the thread has sent what was asked for before."""
    reset.mailers.submit(int).result(TIMEOUT)


@pytest.mark.django_db(transaction=True)
def test_a_reset_is_sent_to_the_address_and_the_page_does_not_tell() -> None:
    User.objects.create_user("ann", "ann@example.com", OLD)
    assert ask("ann@example.com", host="localhost:1234") == ask("nobody@example.com")
    all_sent()
    (letter,) = mail.outbox
    assert letter.to == ["ann@example.com"]
    assert letter.subject == "A new password at 127.0.0.1:8000"
    assert "a new password of ann at 127.0.0.1:8000." in str(letter.body)
    # Whatever the request says, the link leads to the first of ALLOWED_HOSTS.
    link = re.search(r"http://127\.0\.0\.1:8000(/account/password/\S+)", str(letter.body))
    assert link
    client, form = open_link(link[1])
    assert client.post(form, chosen(NEW)).status_code == 302
    assert User.objects.get().check_password(NEW)
    assert Client().get(link[1]).status_code == 410
    for email in ["ann@example.com", "Ann@Example.com"] * MAILS_PER_DAY:
        ask(email)
    all_sent()
    assert len(mail.outbox) == MAILS_PER_DAY


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Have the mail server keep each e-mail until the test ends; the event says that one came."""
    came, end = Event(), Event()

    def send(_: EmailMessage) -> None:
        came.set()
        end.wait(TIMEOUT)

    monkeypatch.setattr(EmailMessage, "send", send)
    yield came
    end.set()
    all_sent()


@pytest.mark.django_db(transaction=True)
def test_no_answer_waits_for_the_mail_server_and_too_many_requests_are_refused(
    monkeypatch: pytest.MonkeyPatch, stuck: Event
) -> None:
    User.objects.create_user("ann", "ann@example.com", OLD)
    monkeypatch.setattr(reset, "room", BoundedSemaphore(2))
    first = ask("ann@example.com")
    assert stuck.wait(TIMEOUT)
    assert first == ask("nobody@example.com")
    for email in ("ann@example.com", "nobody@example.com"):
        response = Client().post("/account/reset", {"email": email})
        assert response.status_code == 503
        assert response["Retry-After"]


@pytest.mark.django_db(transaction=True)
def test_an_email_that_fails_is_logged_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ann = User.objects.create_user("ann", "ann@example.com", OLD)
    send: Callable[[EmailMessage], int] = EmailMessage.send

    def refuse(_: EmailMessage) -> int:
        raise ConnectionRefusedError

    monkeypatch.setattr(EmailMessage, "send", refuse)
    with caplog.at_level(logging.ERROR):
        for _ in range(MAILS_PER_DAY):
            assert ask("ann@example.com") == ask("nobody@example.com")
        all_sent()
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"No link to a new password is sent to account {ann.pk}"] * MAILS_PER_DAY
    assert not QuotaUsage.objects.filter(spent__gt=0).exists()
    monkeypatch.setattr(EmailMessage, "send", send)
    ask("ann@example.com")
    all_sent()
    assert len(mail.outbox) == 1


def test_without_a_mail_server_there_is_no_reset(settings: Settings) -> None:
    assert "Forgot your password?" in text(Client().get("/login"))
    settings.EMAIL_URL = ""
    paths = runpy.run_path(urls.__file__)["urlpatterns"]
    assert not [each.name for each in paths if "reset" in each.name]
