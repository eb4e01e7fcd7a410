"""/admin/ of short URLs and of API tokens."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, admitted, create_link, text, user

pytestmark = pytest.mark.django_db

LIST, TOKENS = "/admin/shorturl/shorturl/", "/admin/shorturl/apitoken/"
SCOPES = {f"can_{scope}": "on" for scope in ApiToken.SCOPES}


@pytest.fixture
def link() -> ShortUrl:
    return create_link(hits=3)


@pytest.fixture
def path(link: ShortUrl) -> str:
    return f"{LIST}{link.pk}/change/"


def rows(response: Any) -> list[str]:
    return re.findall(r'field-key"><a [^>]*>(\w+)</a>', response.text)


def post_and_get_update(client: Client, path: str, fields: dict[str, Any]) -> str:
    """Post a form that is accepted, and return the statement that changes the row."""
    with CaptureQueriesContext(connection) as queries:
        assert client.post(path, fields).status_code == 302
    (update,) = [query["sql"] for query in queries if "UPDATE" in query["sql"]]
    return str(update)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["gone", "known"]),
        ("q=kno+catalogue+sprin", ["known"]),
        ("q=OTHER", ["gone"]),
        ("owner__isempty=1&deleted_at__isempty=0", ["gone"]),
        ("owner__isempty=1&deleted_at__isempty=1", ["known"]),
    ],
)
def test_links_are_searched_and_filtered(
    admin_client: Client, query: str, expected: list[str]
) -> None:
    create_link(title="Catalogue", tags=["news", "spring"])
    create_link("gone", target_url=OTHER).delete()
    assert rows(admin_client.get(f"{LIST}?{query}")) == expected


def test_the_list_takes_few_queries_and_shows_100_links_with_shortened_targets(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(120):
        create_link(f"key{number}", target_url=TARGET.ljust(2_000, "a"))
    # The session, the user, how many there are, one page of them, and none per link.
    with django_assert_max_num_queries(6) as sent:
        page = admin_client.get(f"{LIST}?q=key")
    assert len([query["sql"] for query in sent if "COUNT(" in query["sql"]]) == 1
    assert len(rows(page)) == 100
    assert "a" * 100 not in page.text


def test_the_admin_creates_no_link_and_points_to_the_form(admin_client: Client) -> None:
    assert 'href="/"' in admin_client.get(LIST).text
    for response in (admin_client.get(f"{LIST}add/"), admin_client.post(f"{LIST}add/")):
        assert response.status_code == 403


def test_a_link_with_a_target_that_would_be_refused_today_can_be_edited(
    admin_client: Client, client: Client
) -> None:
    owner = user()
    client.force_login(owner)
    target_url = "https://example.com/" + "\N{GRINNING FACE}" * 1_300  # 15,620 bytes when encoded
    link = create_link("long", target_url=target_url, owner=owner)
    for sender, path in [(client, "/links/long"), (admin_client, f"{LIST}{link.pk}/change/")]:
        title = f"from {path}"
        sent = {"target_url": target_url, "initial-target_url": target_url, "title": title}
        assert sender.post(path, {**sent, "owner": owner.pk}).status_code in (302, 303)
        assert ShortUrl.objects.get().title == title
        refused = sender.post(path, {**sent, "target_url": f"{target_url[:-1]}a"})
        assert "bytes when it is percent-encoded: use" in refused.text
    assert len(client.get("/long").headers["Location"]) == 15_620


def test_only_the_target_is_written_so_that_no_concurrent_hit_is_lost(
    admin_client: Client, link: ShortUrl, path: str
) -> None:
    form = admin_client.get(path).text
    assert 'name="target_url"' in form
    assert "maxlength" not in form  # a browser would cut a pasted text without a message
    sent = {"target_url": OTHER, "key": "mine", "hits": 0, "created_at": "", "deleted_at": "now"}
    update = post_and_get_update(admin_client, path, sent)
    assert update.startswith(f'UPDATE "shorturl_shorturl" SET "target_url" = \'{OTHER}\' WHERE')
    edited = ShortUrl.objects.get()
    assert (edited.target_url, edited.key, edited.hits) == (OTHER, "known", 3)
    assert (edited.created_at, edited.deleted_at) == (link.created_at, None)


def test_title_and_tags_are_edited_and_an_invalid_target_is_refused(
    admin_client: Client, path: str
) -> None:
    page = admin_client.post(path, {"target_url": "https://testserver/x"})
    assert "is an address of this service" in text(page)
    assert ShortUrl.objects.get().target_url == TARGET
    sent = {"target_url": "example.org/x", "title": "A", "tags": "b, C"}
    assert admin_client.post(path, sent).status_code == 302
    edited = ShortUrl.objects.values_list("target_url", "title", "tags").get()
    assert edited == ("https://example.org/x", "A", ["b", "c"])
    assert 'value="b, c"' in admin_client.get(path).text


@pytest.mark.parametrize("several", [False, True])
def test_deleting_asks_first_and_keeps_the_row(
    admin_client: Client, link: ShortUrl, path: str, several: bool
) -> None:
    address = LIST if several else f"{LIST}{link.pk}/delete/"
    sent = {"action": "delete_selected", "_selected_action": [link.pk]} if several else {}
    confirmation = text(admin_client.post(address, sent) if several else admin_client.get(address))
    assert "the key is never reused" in confirmation
    assert "Short URLs: 1" in confirmation
    assert ShortUrl.objects.get().deleted_at is None
    assert admin_client.post(address, {**sent, "post": "yes"}).status_code == 302
    deleted = ShortUrl.objects.values().get()
    assert deleted["deleted_at"]
    assert (deleted["key"], deleted["target_url"], deleted["hits"]) == ("known", TARGET, 3)
    # A deleted link stays as it is.
    assert "deleted at" in text(admin_client.get(path)).lower()
    assert admin_client.post(path, {"target_url": OTHER}).status_code == 400
    admin_client.post(address, {**sent, "post": "yes"})
    assert ShortUrl.objects.values().get() == deleted


def test_a_link_that_is_deleted_while_it_is_edited_is_not_changed(
    admin_client: Client, link: ShortUrl, path: str
) -> None:
    def delete_first(execute: Any, sql: str, *rest: Any) -> Any:
        if str(sql).startswith('UPDATE "shorturl_shorturl" SET "target_url"'):
            link.delete()
        return execute(sql, *rest)

    with connection.execute_wrapper(delete_first):
        response = admin_client.post(path, {"target_url": OTHER})
    assert (response.status_code, "was deleted, and is not" in response.text) == (400, True)
    assert ShortUrl.objects.get().target_url == TARGET


def add_token(admin_client: Client, **also: str) -> str:
    response = admin_client.post(f"{TOKENS}add/", {"name": "backup", **SCOPES, **also})
    assert "no-store" in response["Cache-Control"]
    shown = re.search(r'<pre id="token">(\S+)</pre>', response.text)
    assert shown, text(response)
    return shown[1]


@pytest.mark.parametrize("button", ["_save", "_addanother", "_continue"])
def test_a_new_token_is_shown_once_and_stored_nowhere(admin_client: Client, button: str) -> None:
    assert "prefix" not in admin_client.get(f"{TOKENS}add/").text
    token = add_token(admin_client, **{button: "Save"})
    assert admitted(token)
    stored = ApiToken.objects.get()
    for path in (TOKENS, f"{TOKENS}{stored.pk}/change/", f"{TOKENS}{stored.pk}/history/"):
        assert token not in admin_client.get(path).text
    assert token not in str([*ApiToken.objects.values(), *LogEntry.objects.values()])
    assert token not in str([session.get_decoded() for session in Session.objects.all()])
    assert token not in str(admin_client.cookies)


def test_a_token_is_revoked_once(admin_client: Client) -> None:
    token = add_token(admin_client)
    sent = {"action": "revoke", "_selected_action": [ApiToken.objects.get().pk]}
    assert "Tokens revoked: 1." in text(admin_client.post(TOKENS, sent, follow=True))
    assert not admitted(token)
    before = ApiToken.objects.get().revoked_at
    assert "Tokens revoked: 0." in text(admin_client.post(TOKENS, sent, follow=True))
    assert ApiToken.objects.get().revoked_at == before


def test_only_a_tokens_name_is_written_so_that_no_concurrent_revocation_is_undone(
    admin_client: Client,
) -> None:
    token = add_token(admin_client)
    stored = ApiToken.objects.get()
    sent = {"name": "archive", **SCOPES, "digest": "0" * 64, "revoked_at": "2001-01-01"}
    update = post_and_get_update(admin_client, f"{TOKENS}{stored.pk}/change/", sent)
    assert update.startswith('UPDATE "shorturl_apitoken" SET "name" = \'archive\' WHERE')
    renamed = ApiToken.objects.get()
    assert (renamed.name, renamed.digest) == ("archive", stored.digest)
    assert admitted(token)
