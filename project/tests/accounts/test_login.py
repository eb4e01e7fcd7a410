"""Log-ins: the number of wrong passwords, and the number that is hashed at a time."""

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import InternalError, connection
from django.db.models import F
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import Settings
from pytest_django.asserts import assertContains

from project.accounts import login
from shorturl.client_address import client_address
from shorturl.tests.statements import before_statement

PASSWORD = "the right one of them"
LOGIN, ADMIN_LOGIN = "/account/login/", "/admin/login/"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def boss(settings: Settings) -> User:
    settings.AXES_FAILURE_LIMIT = 3
    return User.objects.create_superuser("boss", password=PASSWORD)


def log_in(path: str, password: str, *, name: str = "boss", **extra: str) -> Any:
    return Client().post(path, {"username": name, "password": password}, **extra)  # type: ignore[arg-type]


def test_login_is_the_short_address_of_the_page(client: Client) -> None:
    response = client.get("/login?next=/links")
    assert response["Location"] == f"{LOGIN}?next=/links"
    page = client.get("/links", follow=True)
    assert page.redirect_chain == [(f"{LOGIN}?next=/links", 302)]
    form = {"username": "boss", "password": PASSWORD, "next": "/links"}
    User.objects.create_user("other")
    assert client.post(LOGIN, form)["Location"] == "/links"
    assert User.objects.get(last_login=None).username == "other"


@pytest.mark.parametrize(("path", "other"), [(LOGIN, ADMIN_LOGIN), (ADMIN_LOGIN, LOGIN)])
def test_after_some_wrong_passwords_the_right_one_is_refused_too(path: str, other: str) -> None:
    assert [log_in(path, "wrong").status_code for _ in range(3)] == [200, 200, 429]
    response = log_in(other, PASSWORD)
    assert response.status_code == 429
    assert response["Cache-Control"] == "no-store"
    assert "Try again in five minutes." in response.content.decode()
    assert "Content-Security-Policy" in response
    # The count is of a name and a network.
    assert log_in(LOGIN, PASSWORD, REMOTE_ADDR="192.0.2.1").status_code == 302
    assert log_in(LOGIN, "wrong", name="somebody").status_code == 200


def test_the_right_password_ends_the_count_and_the_pause_ends_by_itself(settings: Settings) -> None:
    for password in ("wrong", "wrong", PASSWORD, "wrong", "wrong"):
        assert log_in(LOGIN, password).status_code != 429
    assert [log_in(LOGIN, "wrong").status_code for _ in range(2)] == [429, 429]
    before_the_pause = timezone.now() - settings.AXES_COOLOFF_TIME - timedelta(seconds=1)
    AccessAttempt.objects.update(attempt_time=before_the_pause + timedelta(minutes=1))
    assert log_in(LOGIN, "wrong").status_code == 429  # which does not prolong the pause
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=1))
    assert log_in(LOGIN, PASSWORD).status_code == 302
    assert not AccessLog.objects.exists()  # it would have the addresses of users


def test_wrong_passwords_from_a_network_are_counted_together() -> None:
    """The networks are those of quotas: the /64 of an IPv6 address, the /24 of an IPv4 one."""
    addresses = ("2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:3%eth0")
    statuses = [log_in(LOGIN, "wrong", REMOTE_ADDR=address).status_code for address in addresses]
    assert statuses == [200, 200, 429]
    assert log_in(LOGIN, PASSWORD, REMOTE_ADDR="2001:db8::4").status_code == 429
    assert log_in(LOGIN, PASSWORD, REMOTE_ADDR="2001:db8:0:1::1").status_code == 302


@pytest.mark.parametrize("path", [LOGIN, ADMIN_LOGIN])
def test_a_password_in_the_field_of_the_name_is_neither_stored_nor_logged(
    caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level("DEBUG", "axes")
    statuses = [log_in(path, "wrong", name=PASSWORD).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert PASSWORD not in f"{[*AccessAttempt.objects.values()]} {caplog.text}"
    assert caplog.text


@pytest.mark.parametrize("name", ["a" * 256, "\N{GRINNING FACE}" * 3000])  # the column has 255
def test_wrong_passwords_are_counted_for_names_of_any_length(name: str) -> None:
    assert [log_in(LOGIN, "wrong", name=name).status_code for _ in range(3)] == [200, 200, 429]


# {} stands for the message of the error.
REFUSE_UPDATES_OF_ACCOUNTS = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE '{}' USING ERRCODE = 'internal_error'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON auth_user EXECUTE FUNCTION refuse()
"""


def test_a_login_works_if_its_time_cannot_be_stored_on_a_node() -> None:
    """On a cluster accounts are on every node. Any other error of this write is raised."""
    node_is_down = "failure on connection marked as essential: worker-1:5432"
    with connection.cursor() as cursor:
        cursor.execute(REFUSE_UPDATES_OF_ACCOUNTS.format(node_is_down))
        assert log_in(LOGIN, PASSWORD).status_code == 302
        assert User.objects.get().last_login is None
        cursor.execute("DROP TRIGGER refuse ON auth_user; DROP FUNCTION refuse")
        assert log_in(LOGIN, PASSWORD).status_code == 302
        assert User.objects.get().last_login
        cursor.execute(REFUSE_UPDATES_OF_ACCOUNTS.format("a bug"))
    with pytest.raises(InternalError, match="a bug"):
        log_in(LOGIN, PASSWORD)


@pytest.mark.parametrize("path", [LOGIN, ADMIN_LOGIN])
def test_a_login_is_refused_if_its_account_is_deactivated_meanwhile(
    client: Client, path: str
) -> None:
    """The account is deactivated after its password was checked."""
    form = {"username": "boss", "password": PASSWORD, "next": "/links"}
    with before_statement('"last_login" =', call=lambda: User.objects.update(is_active=False)):
        page = client.post(path, form, follow=True)
    assertContains(page, login.REFUSED)
    User.objects.update(is_active=True)
    assert client.get("/links").status_code == 302  # to the login


@pytest.mark.parametrize(
    ("trusted", "header", "address"),
    [
        (False, "192.0.2.1", "127.0.0.1"),  # which is the address of the connection
        (True, "10.0.0.1, 192.0.2.1", "192.0.2.1"),
        (True, "2001:db8::1", "2001:db8::1"),
        (True, "192.0.2.1:4711", "192.0.2.1"),
        (True, "[2001:db8::1]:4711", "2001:db8::1"),
        (True, "::ffff:192.0.2.1", "192.0.2.1"),
        (True, "unknown", None),  # then all such clients share a quota
        (True, None, "127.0.0.1"),
    ],
)
def test_the_address_of_a_client_is_the_last_of_x_forwarded_for_behind_a_trusted_proxy(
    settings: Settings, trusted: bool, header: str | None, address: str | None
) -> None:
    settings.BEHIND_PROXY = trusted
    headers = {"X-Forwarded-For": header} if header else {}
    assert client_address(RequestFactory().get("/login", headers=headers).META) == address


def test_a_hash_that_fails_leaves_its_place_to_the_next_login(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["project.accounts.login.LimitedHasher"]
    User.objects.update(password="pbkdf2_sha256$-1$salt$hash")  # of a row that was damaged
    for _ in range(login.MAX_HASHES):
        with pytest.raises(ValueError, match="iteration"):
            log_in(LOGIN, PASSWORD)
    User.objects.update(password=make_password(PASSWORD))
    assert log_in(LOGIN, PASSWORD).status_code == 302


@pytest.mark.parametrize("path", [LOGIN, ADMIN_LOGIN])
def test_beyond_some_hashes_at_a_time_a_login_is_a_503_and_not_counted(
    settings: Settings, path: str
) -> None:
    settings.PASSWORD_HASHERS = ["project.accounts.login.LimitedHasher"]
    User.objects.update(password=make_password(PASSWORD))
    with login.limit_hashes():  # one of the two hashes at a time
        assert log_in(path, PASSWORD).status_code == 302
        with login.limit_hashes():
            for name in ["boss", "nobody"] * settings.AXES_FAILURE_LIMIT:
                response = log_in(path, "wrong", name=name)
                assert response.status_code == 503
                assert int(response["Retry-After"]) == login.RETRY_AFTER
                assert "Too many people are logging in" in response.content.decode()
    assert log_in(path, PASSWORD).status_code == 302
