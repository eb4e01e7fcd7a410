"""/admin/ of API tokens: created, shown once, renamed, revoked."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from shorturl.models import ApiToken
from shorturl.tests.callers import admitted, text, user

pytestmark = pytest.mark.django_db

TOKENS = "/admin/shorturl/apitoken/"
ALL = {f"can_{scope}": "on" for scope in ApiToken.SCOPES}


def add_token(admin_client: Client, **also: str) -> str:
    response = admin_client.post(f"{TOKENS}add/", {"name": "backup", **ALL, **also})
    assert "no-store" in response["Cache-Control"]
    shown = re.search(r'<pre id="token">(\S+)</pre>', response.content.decode())
    assert shown, text(response)
    return shown[1]


@pytest.mark.parametrize("button", ["_save", "_addanother", "_continue"])
def test_a_new_token_is_shown_once_and_stored_nowhere(admin_client: Client, button: str) -> None:
    assert "prefix" not in admin_client.get(f"{TOKENS}add/").content.decode()
    token = add_token(admin_client, **{button: "Save"})
    assert admitted(token)
    stored = ApiToken.objects.get()
    for path in (TOKENS, f"{TOKENS}{stored.pk}/change/", f"{TOKENS}{stored.pk}/history/"):
        assert token not in admin_client.get(path).content.decode()
    assert token not in str(list(ApiToken.objects.values()) + list(LogEntry.objects.values()))
    assert token not in str([session.get_decoded() for session in Session.objects.all()])
    assert token not in str(admin_client.cookies)


def test_revoking(admin_client: Client) -> None:
    token = add_token(admin_client)
    sent = {"action": "revoke", "_selected_action": [ApiToken.objects.get().pk]}
    assert "Tokens revoked: 1." in text(admin_client.post(TOKENS, sent, follow=True))
    assert not admitted(token)
    before = ApiToken.objects.get().revoked_at
    assert "Tokens revoked: 0." in text(admin_client.post(TOKENS, sent, follow=True))
    assert ApiToken.objects.get().revoked_at == before


def test_a_token_can_be_renamed_and_not_deleted(admin_client: Client) -> None:
    """Only changed fields are written, so that no concurrent revocation is undone."""
    token = add_token(admin_client)
    stored = ApiToken.objects.get()
    sent = {"name": "archive", **ALL, "digest": "0" * 64, "revoked_at": "2001-01-01"}
    with CaptureQueriesContext(connection) as queries:
        assert admin_client.post(f"{TOKENS}{stored.pk}/change/", sent).status_code == 302
    (update,) = [each["sql"] for each in queries if "UPDATE" in each["sql"]]
    assert update.startswith('UPDATE "shorturl_apitoken" SET "name" = \'archive\' WHERE')
    renamed = ApiToken.objects.get()
    assert (renamed.name, renamed.digest) == ("archive", stored.digest)
    assert admitted(token)
    assert admin_client.post(f"{TOKENS}{stored.pk}/delete/", {"post": "yes"}).status_code == 403


def test_creating_a_token_takes_the_permission(client: Client) -> None:
    client.force_login(user("view_apitoken", staff=True))
    assert client.post(f"{TOKENS}add/", {"name": "backup"}).status_code == 403
    assert not ApiToken.objects.exists()
