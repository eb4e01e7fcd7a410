"""/admin/ of short URLs and of API tokens."""

import re
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db.models import Model
from django.test import Client
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import following
from shorturl.models import ApiToken, BannedDomain, ShortUrl, Visit
from shorturl.tests.callers import (
    OTHER,
    TARGET,
    create_link,
    is_accepted,
    make_token,
    text,
    user,
)
from shorturl.tests.statements import before_statement

pytestmark = pytest.mark.django_db

LIST, TOKENS = "/admin/shorturl/shorturl/", "/admin/shorturl/apitoken/"
ALL_SCOPES = {f"can_{scope}": "on" for scope in ApiToken.SCOPES}


@pytest.fixture
def link() -> ShortUrl:
    return create_link(hits=3)


@pytest.fixture
def change_page(link: ShortUrl) -> str:
    return f"{LIST}{link.pk}/change/"


def listed_names(response: Any) -> list[str]:
    return re.findall(r'field-(?:key|name)"><a [^>]*>(\w+)<', response.text)


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (LIST, "", "gone known"),
        (LIST, "q=kno+catalogue+sprin+user1", "known"),
        (LIST, "q=EXAMPLE.ORG", "gone"),  # the target, in any case
        (LIST, "owner__isempty=0&deleted_at__isempty=1", "known"),
        (LIST, "expires_at__isempty=0", "gone"),
        (LIST, "created_at__year=2020", ""),
        (TOKENS, "", "phone laptop"),
        (TOKENS, "q=LAP+abcd+user1", "laptop"),
        (TOKENS, "revoked_at__isempty=1", "phone"),
    ],
)
def test_links_and_tokens_are_searched_and_filtered(
    admin_client: Client, path: str, query: str, expected: str
) -> None:
    owner, now = user(), timezone.now()
    create_link(title="Catalogue", tags=["news", "spring"], owner=owner)
    create_link("gone", target_url=OTHER, expires_at=now).delete()
    make_token(name="laptop", user=owner, revoked_at=now)
    ApiToken.objects.update(prefix="abcdefgh")
    make_token(name="phone")
    page = admin_client.get(f"{path}?{query}")
    assert listed_names(page) == expected.split()


@pytest.mark.parametrize(
    ("path", "columns", "filters"),
    [
        (LIST, "key state hits target owner created_at", "created at, owner, expiry, deleted at"),
        (TOKENS, f"name user {' '.join(ALL_SCOPES)} prefix created_at revoked_at", "revoked at"),
        ("/admin/shorturl/banneddomain/", "domain banned_at", ""),
    ],
)
def test_a_list_has_its_columns_and_filters(
    admin_client: Client, path: str, columns: str, filters: str
) -> None:
    create_link()
    make_token(revoked_at=timezone.now())
    BannedDomain.objects.create(domain="banned.example")
    page = admin_client.get(path).text
    assert " ".join(re.findall(r'class="[^"]*\bcolumn-(\w+)', page)) == columns
    assert ", ".join(re.findall(r'data-filter-title="([^"]+)"', page)) == filters


def test_the_list_takes_few_queries_and_shows_100_links_with_shortened_targets(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(120):
        create_link(f"key{number}", target_url=TARGET.ljust(2_000, "a"))
    # The session, the user, how many there are, one page of them, and none per link.
    with django_assert_max_num_queries(6) as sent:
        page = admin_client.get(f"{LIST}?q=key")
    assert len([query["sql"] for query in sent if "COUNT(" in query["sql"]]) == 1
    assert len(listed_names(page)) == 100
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
    for editor, path in [(client, "/links/long"), (admin_client, f"{LIST}{link.pk}/change/")]:
        form = {"target_url": target_url, "initial-target_url": target_url, "title": path}
        assert editor.post(path, {**form, "owner": owner.pk}).status_code in (302, 303)
        assert ShortUrl.objects.get().title == path
        refused = editor.post(path, {**form, "target_url": f"{target_url}a"})
        assert "bytes when it is percent-encoded: use" in refused.text
    assert len(client.get("/long").headers["Location"]) == 15_620


def test_only_the_target_is_written_so_that_no_concurrent_hit_is_lost(
    admin_client: Client, link: ShortUrl, change_page: str
) -> None:
    form = admin_client.get(change_page).text
    assert 'name="target_url"' in form
    assert "maxlength" not in form  # a browser would cut a pasted text without a message
    sent = {"target_url": OTHER, "key": "mine", "hits": 0, "created_at": "", "deleted_at": "now"}
    sent["owner"] = user().pk
    hit = partial(following.follow, "known", Visit())
    with before_statement('SET "target_url"', call=hit):
        assert admin_client.post(change_page, sent).status_code == 302
    edited = ShortUrl.objects.get()
    assert (edited.target_url, edited.key, edited.hits) == (OTHER, "known", 4)
    assert (edited.created_at, edited.deleted_at, edited.owner) == (link.created_at, None, None)


def test_title_and_tags_are_edited_and_an_invalid_target_is_refused(
    admin_client: Client, change_page: str
) -> None:
    page = admin_client.post(change_page, {"target_url": "https://testserver/x"})
    assert "is an address of this service" in text(page)
    assert ShortUrl.objects.get().target_url == TARGET
    sent = {"target_url": "example.org/x", "title": "A", "tags": "b, C"}
    assert admin_client.post(change_page, sent).status_code == 302
    edited = ShortUrl.objects.values_list("target_url", "title", "tags").get()
    assert edited == ("https://example.org/x", "A", ["b", "c"])
    assert 'value="b, c"' in admin_client.get(change_page).text


@pytest.mark.parametrize("several", [False, True])
def test_deleting_asks_first_and_keeps_the_row(
    admin_client: Client, link: ShortUrl, change_page: str, several: bool
) -> None:
    if several:
        address = LIST
        sent = {"action": "delete_selected", "_selected_action": [link.pk]}
        confirmation = text(admin_client.post(address, sent))
    else:
        address = f"{LIST}{link.pk}/delete/"
        sent = {}
        confirmation = text(admin_client.get(address))
    assert "the key is never reused" in confirmation
    assert "Short URLs: 1" in confirmation
    assert ShortUrl.objects.get().deleted_at is None
    assert admin_client.post(address, {**sent, "post": "yes"}).status_code == 302
    deleted = ShortUrl.objects.values().get()
    assert deleted["deleted_at"]
    assert (deleted["key"], deleted["target_url"], deleted["hits"]) == ("known", TARGET, 3)
    # A deleted link stays as it is.
    assert "deleted at" in text(admin_client.get(change_page)).lower()
    assert admin_client.post(change_page, {"target_url": OTHER}).status_code == 400
    admin_client.post(address, {**sent, "post": "yes"})
    assert ShortUrl.objects.values().get() == deleted


def test_a_link_that_is_deleted_while_it_is_edited_is_not_changed(
    admin_client: Client, link: ShortUrl, change_page: str
) -> None:
    with before_statement('UPDATE "shorturl_shorturl" SET "target_url"', call=link.delete):
        page = admin_client.post(change_page, {"target_url": OTHER})
    assertContains(page, "was deleted, and is not", status_code=400)
    assert ShortUrl.objects.get().target_url == TARGET


def add_token(admin_client: Client, **button: str) -> str:
    """Add a token with all scopes, and return what the page shows."""
    response = admin_client.post(f"{TOKENS}add/", {"name": "backup", **ALL_SCOPES, **button})
    assert "no-store" in response["Cache-Control"]
    shown = re.search(r'<pre id="token">([^<\s]+)<', response.text)
    assert shown, text(response)
    return shown[1]


@pytest.mark.parametrize("button", ["_save", "_addanother", "_continue"])
def test_a_new_token_is_shown_once_and_stored_nowhere(admin_client: Client, button: str) -> None:
    token = add_token(admin_client, **{button: "Save"})
    assert is_accepted(token)
    stored = ApiToken.objects.get()
    for path in (TOKENS, f"{TOKENS}{stored.pk}/change/", f"{TOKENS}{stored.pk}/history/"):
        assert token not in admin_client.get(path).text
    assert token not in str([*ApiToken.objects.values(), *LogEntry.objects.values()])
    assert token not in str([session.get_decoded() for session in Session.objects.all()])
    assert token not in str(admin_client.cookies)


def test_a_token_is_revoked_once(admin_client: Client) -> None:
    token = add_token(admin_client)
    sent = {"action": "revoke", "_selected_action": [ApiToken.objects.get().pk]}
    answer = admin_client.post(TOKENS, sent, follow=True)
    assertContains(answer, 'class="success">Tokens revoked: 1.')
    assert not is_accepted(token)
    before = ApiToken.objects.get().revoked_at
    assert "Tokens revoked: 0." in text(admin_client.post(TOKENS, sent, follow=True))
    assert ApiToken.objects.get().revoked_at == before


@pytest.mark.parametrize(
    ("model", "action", "permission"),
    [
        (ApiToken, "revoke", "change"),
        (ShortUrl, "hand_over", "change"),
        *((model, "delete_selected", "delete") for model in (ApiToken, BannedDomain, ShortUrl)),
        *((model, "delete_selected", "delete") for model in (Group, User)),
    ],
)
def test_an_action_needs_its_permission_and_is_only_then_offered(
    client: Client, model: type[Model], action: str, permission: str
) -> None:
    create_link(owner=user())
    make_token()
    Group.objects.create(name="editors")
    BannedDomain.objects.create(domain="banned.example")
    objects = model._default_manager
    path = f"/admin/{model._meta.label_lower.replace('.', '/')}/"
    owner = {"owner": user().get_username()}
    sent = {"action": action, "_selected_action": objects.earliest("pk").pk, "post": "yes", **owner}
    name = model._meta.model_name
    for permissions in ([f"view_{name}"], [f"view_{name}", f"{permission}_{name}"]):
        client.force_login(user(*permissions, staff=True))
        before = list(objects.order_by("pk").values())
        is_allowed = len(permissions) == 2
        assert (f'value="{action}"' in client.get(path).text) is is_allowed
        client.post(path, sent)
        assert (list(objects.order_by("pk").values()) != before) is is_allowed


def test_a_renamed_token_stays_valid(admin_client: Client) -> None:
    token = add_token(admin_client)
    page = f"{TOKENS}{ApiToken.objects.get().pk}/change/"
    assertNotContains(admin_client.get(page), "<option")  # for each account
    sent = {"name": "archive", **ALL_SCOPES, "digest": "0" * 64}
    assert admin_client.post(page, sent).status_code == 302
    assert ApiToken.objects.get().name == "archive"
    assert is_accepted(token)
