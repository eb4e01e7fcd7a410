"""The pages of a user's links: /links, /links/KEY and /links/KEY/delete."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl.models import ShortUrl
from shorturl.pages import my_links
from shorturl.tests.callers import OTHER, TARGET, create_link, form_values, text, user
from shorturl.tests.statements import before_statement

pytestmark = pytest.mark.django_db

EXPIRY = datetime(2090, 1, 1, 12, 0, 30, tzinfo=UTC)  # the form shows no seconds
OLD = datetime(2020, 5, 4, 3, 2, 1, tzinfo=UTC)


@pytest.fixture
def owner(client: Client) -> User:
    """Log in the owner of the link `known`."""
    owner = user()
    client.force_login(owner)
    create_link(owner=owner)
    return owner


def stored_values(*names: str) -> Any:
    """Return these columns of the link `known`."""
    return ShortUrl.objects.values_list(*names, flat=len(names) == 1).get(key="known")


def listed_keys(response: Any) -> list[str]:
    return [link.key for link in response.context["page"]]


def test_a_visitor_has_to_log_in_first(client: Client) -> None:
    for path in ("/links", "/links/known", "/links/known/delete"):
        assertRedirects(client.get(path), f"/account/login/?next={path}")
    assert client.post("/links", {"target_url": TARGET}).status_code == 302
    assert not ShortUrl.objects.exists()


def test_the_list_has_the_users_links_newest_first(client: Client, owner: User) -> None:
    create_link("newer", owner=owner, expires_at=timezone.now())
    create_link("theirs", owner=user())
    create_link("nobodys")
    create_link("gone", owner=owner).delete()
    ShortUrl.objects.filter(key="known").update(hits=2, max_hits=2)
    with CaptureQueriesContext(connection) as sent:
        page = client.get("/links")
    assert len(sent) == 5  # the session, the user, the tags, how many, and the page
    assert listed_keys(page) == ["newer", "known"]
    assert " 2 of 2 hits 0 in 7 days used up Edit " in text(page)
    assert " 0 hits 0 in 7 days expired Edit " in text(page)
    ShortUrl.objects.filter(key="newer").update(created_at=OLD, expires_at=EXPIRY)
    page = client.get("/links")
    assert " 4 May 2020 0 hits 0 in 7 days until 1 Jan 2090, 12:00 UTC Edit " in text(page)
    for time in (OLD, EXPIRY):
        assertContains(page, f'<time datetime="{time.isoformat()}">')
    client.force_login(user(staff=True))  # of the staff, who have no links of their own here
    page = client.get("/links")
    assertContains(page, "You have no links yet. Enter a long address above")
    assertContains(page, 'href="/admin/shorturl/shorturl/"')
    assertNotContains(page, 'role="search"')


def test_the_form_above_the_list_creates_a_link_within_the_quota(
    client: Client, owner: User, settings: Settings
) -> None:
    settings.SHORTURL_LINKS_PER_DAY = 1
    page = client.post("/links?tags=spring", {"target_url": OTHER, "key": "new"}, follow=True)
    assert page.redirect_chain == [("/links", 303)]  # without the filter, which could hide the link
    assertContains(page, "Your short URL is ready:")
    assert listed_keys(page) == ["new", "known"]
    assertContains(page, 'value="http://testserver/new" data-copy')
    page = client.post("/links", {"target_url": OTHER})
    assertContains(page, "The quota of 1 link a day is used up.", status_code=429)
    assert int(page["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"target_url": "javascript:alert(1)"}, 422, "start it with http"),
        ({"target_url": OTHER, "key": "known"}, 409, "is taken. Choose another key"),
        ({"target_url": OTHER, "expires": "at"}, 422, "Enter a date and a time."),
        ({"target_url": OTHER, "max_hits": "0"}, 422, "greater than or equal to 1"),
    ],
)
def test_a_refused_link_stays_in_the_form_above_the_list(
    client: Client, owner: User, fields: dict[str, str], status: int, message: str
) -> None:
    page = client.post("/links", fields)
    title = "<title>Error: My links · shorturl"
    for part in (message, f'value="{fields["target_url"]}"', title, "/known/stats"):
        assertContains(page, part, status_code=status)
    assert ShortUrl.objects.count() == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=NOW", "known"),
        ("q=example.com/pa", "used known"),
        ("q=+known+", "known"),
        ("q=CATA", "used"),
        ("q=%25", ""),  # neither a percent sign nor an underscore is a wildcard
        ("q=k_own", ""),
        ("tags=Spring", "late used"),
        ("tags=spring,news", "used"),
        ("tags=spring&q=other", "late"),
        ("tags=spr", ""),  # a tag is compared as a whole
        ("state=live", "known"),
        ("state=expired", "late"),
        ("state=used+up&tags=news", "used"),
        ("tags=spring&order=oldest", "used late"),
        ("order=key", "known late used"),
        ("order=most", "used late known"),
        ("tags=spring&order=least", "late used"),
    ],
)
def test_links_are_found_by_text_tags_and_state_and_ordered(
    client: Client, owner: User, query: str, expected: str
) -> None:
    """The third link is that of `owner`: known, live, without title and tags."""
    values: Any = {"title": "Catalogue", "tags": ["spring", "news"]}
    create_link("used", owner=owner, hits=1, max_hits=1, **values)
    create_link("late", owner=owner, target_url=OTHER, tags=["spring"], expires_at=timezone.now())
    create_link("theirs", owner=user(), **values)
    page = client.get(f"/links?{query}")
    assert listed_keys(page) == expected.split()
    assert page.context["used_tags"] == ["spring", "news"]
    assert ("None of your links matches." in text(page)) == (expected == "")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("q=%00", "Null characters are not allowed."),
        ("tags=%00", "Null characters are not allowed."),
        ("state=deleted", "Choose live, expired or used up."),
        ("order=nothing", "Choose oldest, key, most, least or week."),
    ],
)
def test_an_invalid_filter_is_named(client: Client, owner: User, query: str, says: str) -> None:
    page = client.get(f"/links?{query}")
    assertContains(page, says, status_code=422)
    assertNotContains(page, "/known", status_code=422)


def test_the_list_has_pages(client: Client, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(my_links, "PER_PAGE", 2)
    for number in range(4):
        create_link(f"key{number}", owner=owner, tags=["spring"])
    page = client.get("/links?q=k&page=2")
    assertContains(page, 'href="?q=k&amp;tags=spring"')  # the links of a tag begin at page 1
    assertContains(page, 'href="?q=k&amp;page=1">Previous')
    assertContains(page, 'href="?q=k&amp;page=3">Next')
    # A number without a page gets the last one, and what is no number the first.
    for wanted, number in {"99": 3, "x": 1}.items():
        assertContains(client.get("/links", {"page": wanted}), f"Page {number} of 3")


def test_title_tags_and_the_forwarded_query_are_edited(client: Client, owner: User) -> None:
    fields = {"target_url": "Example.com/x", "title": " Spring \n 2026", "tags": "B, a|b,, , A "}
    # Tags are separated by commas or "|".
    assert client.post("/links/known", {**fields, "forward_query": "on"}).status_code == 303
    edited = stored_values("target_url", "title", "tags", "forward_query")
    assert edited == ("https://Example.com/x", "Spring 2026", ["b", "a"], True)
    page = client.get("/links/known")
    assertContains(page, 'name="tags" value="b, a"')
    assertContains(client.get("/links"), 'href="?tags=b">b<')
    client.post("/links/known", {**form_values(page), "tags": "", "forward_query": ""})
    assert stored_values("title", "tags", "forward_query") == ("Spring 2026", None, False)


def test_the_longest_title_and_tags_are_accepted(client: Client, owner: User) -> None:
    tags = [f"{number:050}" for number in range(20)]
    fields = {"target_url": TARGET, "title": "x" * 512, "tags": ",".join(tags)}
    assert client.post("/links/known", fields).status_code == 303
    assert stored_values("title", "tags") == ("x" * 512, tags)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tags": ",".join(map(str, range(21)))}, "The link has 21 tags: use at most 20."),
        ({"title": "x" * 513}, "The title has 513 characters: use at most 512."),
        ({"tags": "y" * 51}, "has 51 characters: use at most 50."),
        ({"target_url": ""}, "Enter the target URL"),
        ({"max_hits": "1"}, "is below the hits that were counted"),
        ({"expires": "at"}, "Enter a date and a time."),
        ({"max_hits": "x"}, "Enter a whole number, or leave it empty."),
        ({"expires": "2"}, "Choose a time from the list."),
        ({"expires": "at", "expires_at": "x"}, "Enter a date and a time, for example 2030-12-31"),
        ({"expires": "at", "expires_at": "2001-01-01T12:00"}, "is in the past"),
        ({"expires": "7", "expires_at": "2090-01-01T12:00"}, "Choose “At the time”"),
        ({"expires_at": "2090-01-01T12:00"}, "Choose “At the time”"),
    ],
)
def test_an_edit_that_is_refused_changes_nothing(
    client: Client, owner: User, fields: dict[str, str], message: str
) -> None:
    ShortUrl.objects.update(hits=2)
    page = client.post("/links/known", {"target_url": TARGET, **fields})
    assertContains(page, message, status_code=422)
    assertContains(page, "<title>Error: Edit known · shorturl", status_code=422)
    values = stored_values("target_url", "title", "tags", "max_hits", "expires_at")
    assert values == (TARGET, "", None, None, None)


def test_an_edit_changes_what_the_form_has_unless_the_link_has_just_another_owner(
    client: Client, owner: User
) -> None:
    sent = {"target_url": OTHER, "key": "x", "hits": "9"}
    take = partial(ShortUrl.objects.update, owner=user())
    with before_statement('SET "target_url"', call=take):
        assert client.post("/links/known", sent).status_code == 404
    assert stored_values("target_url") == TARGET
    ShortUrl.objects.update(owner=owner)
    response = client.post("/links/known", sent)
    assert (response.status_code, response["Location"]) == (303, "/links")
    assert stored_values("target_url", "hits") == (OTHER, 0)  # `key` and `hits` are ignored
    assertContains(client.get("/links"), "/known is changed.")


def test_a_form_of_another_site_changes_nothing(owner: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner)
    for path in ("/links", "/links/known", "/links/known/delete"):
        assert browser.post(path, {"target_url": OTHER}).status_code == 403
        # The page's own form and that of the log-out are accepted.
        assertContains(browser.get(path), 'name="csrfmiddlewaretoken"', count=2)
        assert browser.put(path).status_code == 405
    assert stored_values("target_url", "deleted_at") == (TARGET, None)
    assert ShortUrl.objects.count() == 1


def test_a_link_is_deleted_after_a_question(client: Client, owner: User) -> None:
    assertContains(client.get("/links/known/delete"), "Delete /known?")
    assert client.get("/known").status_code == 302
    page = client.post("/links/known/delete", follow=True)
    assert page.redirect_chain == [("/links", 303)]
    assertContains(page, "/known is deleted.")
    assert client.get("/known").status_code == 404
    assert client.post("/links/known/delete").status_code == 404


def test_the_selected_own_links_are_deleted_together(client: Client, owner: User) -> None:
    for key in ("second", "third"):
        create_link(key, owner=owner, target_url=TARGET.ljust(2_000, "a"))
    create_link("theirs", owner=user())
    page = client.get("/links")
    assertContains(page, 'name="key" value="second"')
    assertNotContains(page, "a" * 200)  # long targets are shortened
    path, selected = "/links/delete/selected", {"key": ["theirs", "second", "known", "a\0"]}
    page = client.get(path, selected)
    assertContains(page, "Delete 2 links?")
    for absent in ("theirs", "a" * 200):
        assertNotContains(page, absent)
    fail_at_the_second = Mock(side_effect=[None, OperationalError])
    with before_statement('SET "deleted_at"', call=fail_at_the_second):
        assert client.post(path, selected).status_code == 503
    assert not ShortUrl.objects.exclude(deleted_at=None).exists()
    assertContains(client.post(path, selected, follow=True), "2 links are deleted.")
    left = ShortUrl.objects.filter(deleted_at=None).order_by("key")
    assert [link.key for link in left] == ["theirs", "third"]
    assert client.post(path, selected).status_code == 404
    selected["key"].append("third")
    assertContains(client.post(path, selected, follow=True), "/third is deleted.")


def test_no_link_and_too_many_links_are_not_deleted(client: Client, owner: User) -> None:
    path = "/links/delete/selected"
    assertContains(client.get(path, follow=True), "Select the links to delete first.")
    too_many = {"key": [str(number) for number in range(my_links.MAX_SELECTED + 1)]}
    assert client.post(path, too_many).status_code == 400


def test_an_expiry_in_some_days_is_counted_from_now(client: Client, owner: User) -> None:
    before = timezone.now()
    client.post("/", {"target_url": TARGET, "key": "new", "expires": "7"})
    client.post("/links/known", {"target_url": TARGET, "expires": "7"})
    for expires_at in ShortUrl.objects.values_list("expires_at", flat=True):
        assert expires_at
        assert before <= expires_at - timedelta(days=7) <= timezone.now()


@pytest.mark.parametrize(
    ("changed", "expiry"),
    [
        ({"title": "Spring"}, EXPIRY),
        ({"expires_at": "2091-01-01T12:00"}, datetime(2091, 1, 1, 12, tzinfo=UTC)),
        ({"expires": ""}, None),
    ],
    ids=["another field", "the expiry", "no expiry"],
)
def test_an_edit_keeps_changes_or_removes_the_expiry(
    client: Client, owner: User, changed: dict[str, str], expiry: datetime | None
) -> None:
    ShortUrl.objects.update(expires_at=EXPIRY)
    page = client.get("/links/known")
    assertContains(page, 'value="2090-01-01T12:00"')
    assert client.post("/links/known", {**form_values(page), **changed}).status_code == 303
    assert stored_values("title", "expires_at") == (changed.get("title", ""), expiry)
