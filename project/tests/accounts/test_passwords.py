"""Passwords that users choose: after a login, by an e-mailed link, or by an invitation."""

import re
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.mail import EmailMessage
from django.core.management import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from pytest_django.asserts import assertContains

from project.accounts import login, reset
from shorturl.tests.callers import run, text
from shorturl.tests.statements import before_statement

pytestmark = pytest.mark.django_db
OLD, NEW = "the old one of them", "a new one for today"
CHOSEN = {"new_password1": NEW, "new_password2": NEW}
CHANGE, RESET = "/account/password_change/", "/account/password_reset/"
WEAK = {"Zx3-": "short", "57290371846": "numeric", "password1": "common", "annabel.x": "similar"}
NO_LONGER = "This link is no longer valid"


def invite(*arguments: str) -> str:
    """Return the path of an invitation's link."""
    link = urlsplit(run("invite", "ann", *arguments).output.strip())
    assert (link.scheme, link.netloc) == ("http", "127.0.0.1:8000")
    return link.path


def open_link(path: str) -> tuple[Client, str]:
    """Return a browser with the form of a link, and the form's path, without the token."""
    client = Client()
    form = client.get(path)
    assert form.status_code == 302
    page = text(client.get(form["Location"]))
    assert "Choose a password It is the password of the account ann ." in page
    return client, form["Location"]


def test_a_changed_password_ends_the_other_sessions_and_not_this_one() -> None:
    ann = User.objects.create_user("ann", password=OLD)
    here, there = Client(), Client()
    here.force_login(ann)
    there.force_login(ann)
    wrong = here.post(CHANGE, {"old_password": "wrong", **CHOSEN})
    assert "Your old password was entered incorrectly." in text(wrong)
    page = here.post(CHANGE, {"old_password": OLD, **CHOSEN}, follow=True)
    assert "Your password is set" in text(page)
    assert here.get("/account").status_code == 200
    assert there.get("/account").status_code == 302
    assert User.objects.get().check_password(NEW)


def test_a_changed_password_is_refused_if_the_account_is_deactivated_meanwhile() -> None:
    client = Client()
    client.force_login(User.objects.create_user("ann", password=OLD))
    with before_statement('SET "password"', call=lambda: User.objects.update(is_active=False)):
        page = client.post(CHANGE, {"old_password": OLD, **CHOSEN})
    assertContains(page, "Nothing was written.", status_code=400)
    assert User.objects.get().check_password(OLD)


def test_an_account_that_was_read_again_is_saved_as_it_is_then() -> None:
    """refresh_from_db() reads the password of another process, over which a new one is written."""
    ann = User.objects.create_user("ann", password=OLD)
    also_ann = User.objects.get()
    also_ann.set_password("of another process")
    also_ann.save()
    ann.email = "ann@example.com"
    ann.refresh_from_db(fields=["password"])
    for password in ("a third one", NEW):  # the second one over what this object has written
        ann.set_password(password)
        ann.save()
    stored = User.objects.get()
    assert stored.check_password(NEW)
    assert stored.email == "ann@example.com"


def test_a_link_of_an_inactive_account_counts_as_used() -> None:
    path = invite()
    client, form = open_link(path)
    User.objects.update(is_active=False)
    for answer in (client.post(form, CHOSEN), Client().get(path)):
        assert NO_LONGER in text(answer)
    assert not User.objects.get().has_usable_password()


def test_an_invitation_makes_one_account_once() -> None:
    path = invite("--email", "annabel.x@example.com")
    assert User.objects.get().email == "annabel.x@example.com"
    client, form = open_link(path)
    for weak, reason in WEAK.items():
        assert reason in text(client.post(form, dict.fromkeys(CHOSEN, weak)))
    assert "Your password is set" in text(client.post(form, CHOSEN, follow=True))
    for used in (path, form):
        assert NO_LONGER in text(client.get(used))
    page = client.post("/account/login/", {"username": "ann", "password": NEW}, follow=True)
    assert page.context["user"].username == "ann"


def test_an_invitation_expires_and_needs_its_account(settings: Settings) -> None:
    path = invite()
    settings.PASSWORD_RESET_TIMEOUT = -1  # seconds: every link is older
    assert NO_LONGER in text(Client().get(path))
    settings.PASSWORD_RESET_TIMEOUT = 60
    open_link(path)
    run("remove_account", "ann")
    assert NO_LONGER in text(Client().get(path))
    assert NO_LONGER in text(Client().get("/account/reset/x/y-z/"))  # it names no account


def test_the_expiry_of_an_invitation_is_printed() -> None:
    before, printed, after = timezone.now(), run("invite", "ann").errors, timezone.now()
    moments = [f"{now + timedelta(days=3):%Y-%m-%d %H:%M}" for now in (before, after)]
    assert any(f"to ann. It works once, until {moment} UTC" in printed for moment in moments)


def test_only_an_account_without_a_password_is_invited_again() -> None:
    first, second = invite(), invite("--email", "ann@example.com")
    client, form = open_link(first)
    client.post(form, CHOSEN)
    assert NO_LONGER in text(Client().get(second))
    with pytest.raises(CommandError, match="'ann' has an account"):
        invite()
    run("invite", "bob")
    User.objects.filter(username="bob").update(is_active=False)
    with pytest.raises(CommandError, match="'bob' has an account"):
        run("invite", "bob")


def test_only_a_valid_username_is_invited() -> None:
    with pytest.raises(CommandError, match="'a b' cannot be invited: Enter a valid username"):
        run("invite", "a b")
    User.objects.create_user("Ann")
    with pytest.raises(CommandError, match="'ann' cannot be invited: A user with that username"):
        run("invite", "ann")


def request_reset(email: str, **headers: str) -> str:
    """Ask for a new password; return the text of the page that answers."""
    return text(Client(headers=headers).post(RESET, {"email": email}, follow=True))


def test_a_reset_is_sent_and_the_page_does_not_tell_whether_there_is_an_account(
    settings: Settings,
) -> None:
    settings.SHORTURL_ORIGIN = "https://sho.rt:8443"
    User.objects.create_user("ann", "ann@example.com", OLD)
    assert request_reset("ann@example.com", host="localhost:1234") == request_reset(
        "nobody@example.com"
    )
    (message,) = mail.outbox
    assert message.to == ["ann@example.com"]
    assert message.subject == "A new password at sho.rt:8443"
    assert "a new password of ann at sho.rt:8443." in str(message.body)
    # Whatever the request says, the link leads to the first of ALLOWED_HOSTS.
    link = re.search(r"https://sho\.rt:8443(/account/reset/\S+)", str(message.body))
    assert link
    client, form = open_link(link[1])
    assert client.post(form, CHOSEN).status_code == 302
    assert User.objects.get().check_password(NEW)
    assert NO_LONGER in text(Client().get(link[1]))


def test_an_account_gets_as_many_e_mails_as_allowed() -> None:
    User.objects.create_user("ann", "ann@example.com", OLD)
    for email in ["ann@example.com", "Ann@Example.com"] * reset.MAX_MAILS:
        request_reset(email)
    assert len(mail.outbox) == reset.MAX_MAILS
    User.objects.create_user("bob", "bob@example.com", OLD)
    request_reset("bob@example.com")
    assert mail.outbox[reset.MAX_MAILS].to == ["bob@example.com"]


def test_an_e_mail_that_fails_does_not_tell_whether_there_is_an_account(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: EmailMessage) -> int:
        raise ConnectionRefusedError

    ann = User.objects.create_user("ann", "ann@example.com", OLD)
    monkeypatch.setattr(EmailMessage, "send", refuse)
    assert request_reset("ann@example.com") == request_reset("nobody@example.com")
    assert [record.getMessage() for record in caplog.records] == [
        f"Failed to send password reset email to {ann.pk}"
    ]


def test_a_reset_is_refused_while_as_many_log_ins_as_allowed_are_under_way() -> None:
    """An e-mail takes a thread as long as a log-in does: both count for MAX_HASHES, which is 2."""
    with login.limit_hashes(), login.limit_hashes():
        assert Client().post(RESET, {"email": "ann@example.com"}).status_code == 503
