"""Wrong passwords: the number that is checked, and the limit on hashes at a time."""

import os
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.db import InternalError, connection
from django.test import Client, RequestFactory
from django.utils import timezone

from project.accounts import login
from project.tests.conftest import ROOT, run_in
from shorturl.limits.client_address import client_address

PASSWORD = "the right one of them"
LOGINS = ("/login", "/admin/login/")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def boss(settings: Any) -> User:
    settings.AXES_FAILURE_LIMIT = 3
    return User.objects.create_superuser("boss", password=PASSWORD)


def post(path: str, password: str, *, name: str = "boss", **extra: str) -> Any:
    return Client().post(path, {"username": name, "password": password}, **extra)  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "other"), [LOGINS, LOGINS[::-1]])
def test_after_some_wrong_passwords_the_right_one_is_refused_too(
    settings: Any, path: str, other: str
) -> None:
    assert [post(path, "wrong").status_code for _ in range(3)] == [200, 200, 429]
    response = post(other, PASSWORD)
    assert response.status_code == 429
    assert 0 < int(response["Retry-After"]) <= 300
    assert response["Cache-Control"] == "no-store"
    assert "Try again in 5 minutes, at " in response.content.decode()
    assert "Content-Security-Policy" in response
    # The count is of a name and a network.
    assert post("/login", PASSWORD, REMOTE_ADDR="192.0.2.1").status_code == 302
    assert post("/login", "wrong", name="somebody").status_code == 200


def test_the_right_password_ends_the_count_and_time_the_pause(settings: Any) -> None:
    for password in ("wrong", "wrong", PASSWORD, "wrong", "wrong"):
        assert post("/login", password).status_code != 429
    assert post("/login", "wrong").status_code == 429
    ago = timezone.now() - (settings.AXES_COOLOFF_TIME - timedelta(seconds=90))
    AccessAttempt.objects.update(attempt_time=ago)
    post("/login", "wrong", REMOTE_ADDR="192.0.2.1")  # does not prolong it
    waiting = post("/login", PASSWORD)
    assert int(waiting["Retry-After"]) <= 90
    assert "Try again in 2 minutes" in waiting.content.decode()
    settings.AXES_COOLOFF_TIME = timedelta(0)
    assert post("/login", PASSWORD).status_code == 302


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        (("2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:0:3%eth0"), "2001:db8:0:1::1"),
        (("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.3"), "192.0.3.1"),
    ],
)
def test_wrong_passwords_from_a_network_are_counted_together(
    addresses: tuple[str, ...], other: str
) -> None:
    """The networks are those of quotas: the /64 of an IPv6 address, the /24 of an IPv4 one."""
    statuses = [post("/login", "wrong", REMOTE_ADDR=each).status_code for each in addresses]
    assert statuses == [200, 200, 429]
    waiting = post("/login", PASSWORD, REMOTE_ADDR=addresses[0])
    assert waiting.status_code == 429
    assert "Try again in 5 minutes" in waiting.content.decode()
    assert post("/login", PASSWORD, REMOTE_ADDR=other).status_code == 302


@pytest.mark.parametrize("path", LOGINS)
@pytest.mark.parametrize("name", ["a" * 256, "\N{GRINNING FACE}" * 3000])
def test_a_name_longer_than_any_users_is_counted_like_another(path: str, name: str) -> None:
    assert [post(path, "wrong", name=name).status_code for _ in range(3)] == [200, 200, 429]
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(seconds=210))
    assert int(post(path, "wrong", name=name)["Retry-After"]) <= 90
    assert post(path, PASSWORD).status_code == 302


REFUSE = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE '{}' USING ERRCODE = 'XX000'; END $$;
    CREATE TRIGGER refuse BEFORE UPDATE ON auth_user EXECUTE FUNCTION refuse()
"""


def test_a_login_works_if_its_time_cannot_be_stored_on_a_node() -> None:
    """On a cluster accounts are on every node. Any other error of this write is raised."""
    with connection.cursor() as cursor:
        cursor.execute(REFUSE.format("failure on connection marked as essential: worker-1:5432"))
        assert post("/login", PASSWORD).status_code == 302
        assert User.objects.get().last_login is None
        cursor.execute("DROP TRIGGER refuse ON auth_user; DROP FUNCTION refuse")
        assert post("/login", PASSWORD).status_code == 302
        assert User.objects.get().last_login
        cursor.execute(REFUSE.format("a bug"))
    with pytest.raises(InternalError, match="a bug"):
        post("/login", PASSWORD)


@pytest.mark.parametrize(
    ("trusted", "header", "address"),
    [
        (False, "192.0.2.1", "127.0.0.1"),
        (True, "10.0.0.1, 192.0.2.1", "192.0.2.1"),
        (True, "2001:db8::1", "2001:db8::1"),
        (True, "192.0.2.1:4711", "192.0.2.1"),
        (True, "[2001:db8::1]:4711", "2001:db8::1"),
        (True, "::ffff:192.0.2.1", "192.0.2.1"),
        (True, "unknown", None),
        (True, None, "127.0.0.1"),
    ],
)
def test_a_forwarded_address_is_the_last_and_only_when_the_proxy_is_trusted(
    settings: Any, trusted: bool, header: str | None, address: str | None
) -> None:
    settings.BEHIND_PROXY = trusted
    headers = {"X-Forwarded-For": header} if header else {}
    assert client_address(RequestFactory().get("/login", headers=headers)) == address


# --- One hash at a time --------------------------------------------------------------------------


@pytest.mark.parametrize("path", LOGINS)
def test_while_one_password_of_a_network_is_hashed_another_login_from_there_is_503(
    path: str,
) -> None:
    """It is not checked, so it does not count as wrong. Other networks have other places."""
    flood = RequestFactory().get("/", REMOTE_ADDR="192.0.2.1")
    with login.place_to_hash(flood):
        for _ in range(4):
            response = post(path, "wrong", REMOTE_ADDR="192.0.2.99")
            assert response.status_code == 503
            assert int(response["Retry-After"]) == login.RETRY_AFTER
            assert "Too many people are logging in" in response.content.decode()
        assert post(path, PASSWORD).status_code == 302
    assert post(path, PASSWORD, REMOTE_ADDR="192.0.2.99").status_code == 302


def test_no_more_passwords_are_hashed_than_there_are_places() -> None:
    requests = (RequestFactory().get("/", REMOTE_ADDR=f"198.51.{each}.1") for each in range(3))
    one, two, three = map(login.place_to_hash, requests)
    with one, two, pytest.raises(login.LoginsBusy):
        three.__enter__()


HASHING_IN_A_CHILD = """
import os, signal
import django
django.setup()
from django.test import RequestFactory
from project.accounts.login import LoginsBusy, place_to_hash
request = RequestFactory().get("/")
reader, writer = os.pipe()
child = os.fork()
if not child:
    with place_to_hash(request):
        os.write(writer, b"x")
        signal.pause()
os.read(reader, 1)
try:
    with place_to_hash(request):
        print("free")
except LoginsBusy:
    print("busy")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
with place_to_hash(request):
    print("free")
"""


def test_the_workers_share_the_places_and_a_killed_one_releases_its_place() -> None:
    ended = run_in(ROOT, "-c", HASHING_IN_A_CHILD, **os.environ)
    assert ended.stdout.split() == ["busy", "free"], ended.stderr
