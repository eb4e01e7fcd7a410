"""/admin/ of short URLs and of API tokens."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, admitted, text, user

pytestmark = pytest.mark.django_db

LIST = "/admin/shorturl/shorturl/"


@pytest.fixture
def link() -> ShortUrl:
    return ShortUrl.objects.create(key="known", target_url=TARGET, hits=3)


def page(link: ShortUrl, name: str = "change") -> str:
    return reverse(f"admin:shorturl_shorturl_{name}", args=[link.pk])


def rows(response: Any) -> list[str]:
    return re.findall(r'field-key"><a [^>]*>(\w+)</a>', response.content.decode())


def test_search_and_filters(admin_client: Client, link: ShortUrl) -> None:
    ShortUrl.objects.update(title="Catalogue", tags=["news", "spring"])
    ShortUrl.objects.create(key="gone", target_url=OTHER).delete()
    for query, expected in {
        "": ["gone", "known"],
        "q=kno": ["known"],
        "q=OTHER": ["gone"],
        "q=catalogue": ["known"],
        "q=sprin": ["known"],
        "deleted_at__isempty=0": ["gone"],
        "deleted_at__isempty=1": ["known"],
        "owner__isempty=1": ["gone", "known"],
    }.items():
        assert rows(admin_client.get(f"{LIST}?{query}")) == expected, query


def test_a_list_is_bounded(admin_client: Client, django_assert_max_num_queries: Any) -> None:
    for number in range(120):
        ShortUrl.objects.create(key=f"key{number}", target_url=TARGET.ljust(2_000, "a"))
    # The session, the user, how many there are, one page of them, and none per link.
    with django_assert_max_num_queries(6) as sent:
        response = admin_client.get(f"{LIST}?q=key")
    assert len([query["sql"] for query in sent if "COUNT(" in query["sql"]]) == 1
    assert len(rows(response)) == 100
    assert "a" * 100 not in response.content.decode()


def test_nothing_is_created_here(admin_client: Client) -> None:
    assert f'href="{reverse("index")}"' in admin_client.get(LIST).content.decode()
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}add/", {"target_url": TARGET}).status_code == 403
    assert not ShortUrl.objects.exists()


def test_a_link_with_a_target_that_would_be_refused_today_can_be_edited(
    admin_client: Client, client: Client
) -> None:
    owner = user()
    client.force_login(owner)
    target_url = "https://example.com/" + "\N{GRINNING FACE}" * 1_300
    link = ShortUrl.objects.create(key="long", target_url=target_url, owner=owner)
    for sender, path in [(client, "/links/long"), (admin_client, page(link))]:
        sent = {"target_url": target_url, "initial-target_url": target_url, "title": path}
        assert sender.post(path, {**sent, "owner": owner.pk}).status_code in (302, 303)
        assert ShortUrl.objects.get().title == path
        refused = sender.post(path, {**sent, "target_url": f"{target_url[:-1]}a"})
        assert "bytes when it is percent-encoded: use" in refused.content.decode()
    assert len(client.get("/long").headers["Location"]) == 15_620


def test_only_the_target_can_be_edited(admin_client: Client, link: ShortUrl) -> None:
    """Only the target is written, so that no concurrent hit is lost."""
    form = admin_client.get(page(link)).content.decode()
    assert 'name="target_url"' in form
    assert "maxlength" not in form  # a browser would cut a pasted text without a message
    sent = {"target_url": OTHER, "key": "mine", "hits": 0, "created_at": "", "deleted_at": "now"}
    with CaptureQueriesContext(connection) as queries:
        assert admin_client.post(page(link), sent).status_code == 302
    (update,) = [each["sql"] for each in queries if "UPDATE" in each["sql"]]
    assert update.startswith(f'UPDATE "shorturl_shorturl" SET "target_url" = \'{OTHER}\' WHERE')
    edited = ShortUrl.objects.get()
    assert edited.target_url == OTHER
    assert (edited.key, edited.hits, edited.deleted_at) == ("known", 3, None)
    assert edited.created_at == link.created_at


def test_title_and_tags_and_an_invalid_target(admin_client: Client, link: ShortUrl) -> None:
    page_text = text(admin_client.post(page(link), {"target_url": "https://testserver/x"}))
    assert "is an address of this service" in page_text
    assert ShortUrl.objects.get().target_url == TARGET
    sent = {"target_url": "example.org/x", "title": "A", "tags": "b, C"}
    assert admin_client.post(page(link), sent).status_code == 302
    edited = ShortUrl.objects.values_list("target_url", "title", "tags").get()
    assert edited == ("https://example.org/x", "A", ["b", "c"])
    assert 'value="b, c"' in admin_client.get(page(link)).content.decode()


@pytest.mark.parametrize("several", [False, True])
def test_deleting_asks_first_and_keeps_the_row(
    admin_client: Client, link: ShortUrl, several: bool
) -> None:
    address = LIST if several else page(link, "delete")
    sent = {"action": "delete_selected", "_selected_action": [link.pk]} if several else {}
    confirmation = text(admin_client.post(address, sent) if several else admin_client.get(address))
    assert "the key is never reused" in confirmation
    assert "Short URLs: 1" in confirmation
    assert ShortUrl.objects.get().deleted_at is None
    assert admin_client.post(address, {**sent, "post": "yes"}).status_code == 302
    gone = ShortUrl.objects.get()
    assert (gone.key, gone.target_url, gone.hits) == ("known", TARGET, 3)
    assert gone.deleted_at is not None


def test_a_deleted_link_stays_as_it_is(admin_client: Client, link: ShortUrl) -> None:
    link.delete()
    before = ShortUrl.objects.values().get()
    assert "deleted at" in text(admin_client.get(page(link))).lower()
    assert admin_client.post(page(link), {"target_url": OTHER}).status_code == 400
    admin_client.post(page(link, "delete"), {"post": "yes"})
    sent = {"action": "delete_selected", "_selected_action": [link.pk], "post": "yes"}
    admin_client.post(LIST, sent)
    assert ShortUrl.objects.values().get() == before


def test_a_link_that_is_deleted_while_it_is_edited(admin_client: Client, link: ShortUrl) -> None:
    def delete_first(execute: Any, sql: str, *rest: Any) -> Any:
        if str(sql).startswith('UPDATE "shorturl_shorturl" SET "target_url"'):
            link.delete()
        return execute(sql, *rest)

    with connection.execute_wrapper(delete_first):
        response = admin_client.post(page(link), {"target_url": OTHER})
    assert (response.status_code, "was deleted, and is not" in response.text) == (400, True)
    assert ShortUrl.objects.get().target_url == TARGET


def test_the_permission_to_view_alone(client: Client, link: ShortUrl) -> None:
    client.force_login(user("view_shorturl", staff=True))
    assert rows(client.get(LIST)) == ["known"]
    assert 'name="target_url"' not in client.get(page(link)).content.decode()
    assert client.post(page(link), {"target_url": OTHER}).status_code == 403
    assert client.post(page(link, "delete"), {"post": "yes"}).status_code == 403
    assert ShortUrl.objects.get().deleted_at is None


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


def test_a_token_can_be_renamed(admin_client: Client) -> None:
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


def test_creating_a_token_takes_the_permission(client: Client) -> None:
    client.force_login(user("view_apitoken", staff=True))
    assert client.post(f"{TOKENS}add/", {"name": "backup"}).status_code == 403
    assert not ApiToken.objects.exists()
