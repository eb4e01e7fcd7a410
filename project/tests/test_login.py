"""Wrong passwords: how many are checked, and what they may take from everybody else."""

import os
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from project import login
from project.tests.conftest import ROOT, run_in
from shorturl.client_address import client_address

PASSWORD = "the right one of them"
LOGINS = ("/login", "/admin/login/")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def boss(settings: Any) -> User:
    """A user of the admin."""
    settings.LOGIN_FAILURES = settings.AXES_FAILURE_LIMIT = 3
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
    assert int(response["Retry-After"]) == settings.LOGIN_PAUSE
    assert response["Cache-Control"] == "no-store"
    assert "Try again in 5 minutes." in response.content.decode()
    assert "Content-Security-Policy" in response
    # The count is of a name and an address.
    assert post("/login", PASSWORD, REMOTE_ADDR="192.0.2.1").status_code == 302
    assert post("/login", "wrong", name="somebody").status_code == 200


def test_the_right_password_ends_the_count_and_time_the_pause(settings: Any) -> None:
    for password in ("wrong", "wrong", PASSWORD, "wrong", "wrong"):
        assert post("/login", password).status_code != 429
    assert post("/login", "wrong").status_code == 429
    settings.AXES_COOLOFF_TIME = timedelta(0)
    assert post("/login", PASSWORD).status_code == 302


@pytest.mark.parametrize(
    ("trusted", "header", "address"),
    [
        (False, "192.0.2.1", "127.0.0.1"),
        (True, "10.0.0.1, 192.0.2.1", "192.0.2.1"),
        (True, "2001:db8::1", "2001:db8::1"),
        (True, "unknown", None),
        (True, None, "127.0.0.1"),
    ],
)
def test_a_forwarded_address_is_the_last_and_only_when_the_proxy_is_trusted(
    settings: Any, trusted: bool, header: str | None, address: str | None
) -> None:
    settings.PROXY_CLIENT_ADDRESS = trusted
    headers = {"X-Forwarded-For": header} if header else {}
    assert client_address(RequestFactory().get("/login", headers=headers)) == address


# --- One hash at a time --------------------------------------------------------------------------


@pytest.mark.parametrize("path", LOGINS)
def test_while_one_password_is_hashed_another_login_is_503(path: str) -> None:
    """It is not checked, so it does not count as a wrong one."""
    with login.slot():
        for _ in range(4):
            response = post(path, "wrong")
            assert response.status_code == 503
            assert int(response["Retry-After"]) == login.RETRY_AFTER
    assert post(path, PASSWORD).status_code == 302


HASHING_IN_A_CHILD = """
import os, signal, sys
import django
django.setup()
from django.conf import settings
from project import login
settings.LOGIN_HASHES = 1
reader, writer = os.pipe()
child = os.fork()
if not child:
    with login.slot():
        os.write(writer, b"x")
        signal.pause()
os.read(reader, 1)
try:
    with login.slot():
        print("free")
except login.LoginsBusy:
    print("busy")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
with login.slot():
    print("free")
"""


def test_the_workers_share_the_slots_and_a_killed_one_leaves_none_taken() -> None:
    ended = run_in(ROOT, "-c", HASHING_IN_A_CHILD, **os.environ)
    assert ended.stdout.split() == ["busy", "free"], ended.stderr
