"""The pages of one's own links: /links, /links/KEY and /links/KEY/delete."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl import my_links, operations
from shorturl.models import ShortUrl
from shorturl.tests.api import OTHER, TARGET, user

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(client: Client) -> User:
    """Somebody who has logged in, and the link `known` of theirs."""
    owner = user()
    client.force_login(owner)
    operations.create(TARGET, key="known", owner_id=owner.pk)
    return owner


def stored() -> ShortUrl:
    return ShortUrl.objects.get(key="known")


@pytest.mark.parametrize("path", ["/links", "/links/known", "/links/known/delete"])
def test_a_visitor_logs_in_first(client: Client, path: str) -> None:
    assertRedirects(client.get(path), f"/login?next={path}")
    assertContains(client.get("/"), 'href="/login"')


def test_lists_ones_own_newest_first(client: Client, owner: User) -> None:
    operations.create(OTHER, key="newer", owner_id=owner.pk)
    operations.create(TARGET, key="theirs", owner_id=user().pk)
    operations.create(TARGET, key="nobodys")
    operations.create(TARGET, key="gone", owner_id=owner.pk).delete()
    ShortUrl.objects.filter(key="known").update(hits=1)
    with CaptureQueriesContext(connection) as sent:
        response = client.get("/links")
    assert len(sent) == 4  # the session, the user, how many, and the page
    assert [link.key for link in response.context["page"]] == ["newer", "known"]
    assertContains(response, "<span>1 hit</span>")
    assertContains(response, "<span>0 hits</span>")
    assertNotContains(response, "/admin/shorturl/shorturl/")
    ShortUrl.objects.filter(key="known").update(hits=2, max_hits=2)
    assertContains(client.get("/links"), "<span>used up, 2 of 2 hits</span>")
    client.force_login(user(staff=True))
    assertContains(client.get("/links"), "You have made no short URL yet.")
    assertContains(client.get("/links"), 'href="/admin/shorturl/shorturl/"')


@pytest.mark.parametrize(
    ("sought", "found"),
    [("NOW", 1), ("example.com/pa", 1), (" known ", 1), ("%", 0), ("k_own", 0), ("\0known", 1)],
)
def test_searches_the_key_and_the_target(
    client: Client, owner: User, sought: str, found: int
) -> None:
    response = client.get("/links", {"q": sought})
    assert len(response.context["page"]) == found
    if not found:
        assertContains(response, f"None of your links contains “{sought}”.")


def test_turns_pages(client: Client, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(my_links, "PER_PAGE", 2)
    for number in range(4):
        operations.create(TARGET, key=f"key{number}", owner_id=owner.pk)
    response = client.get("/links?q=k&page=2")
    assertContains(response, '<a rel="prev" href="?q=k&amp;page=1">Newer</a>')
    assertContains(response, '<a rel="next" href="?q=k&amp;page=3">Older</a>')
    assertContains(response, "Page 2 of 3")
    for page, shown in [("9" * 5000, 1), ("99", 3), ("-1", 3), ("x", 1), ("\0", 1)]:
        assertContains(client.get("/links", {"page": page}), f"Page {shown} of 3")


def test_edits_the_target(client: Client, owner: User) -> None:
    assertContains(client.get("/links/known"), f'value="{TARGET}"')
    with CaptureQueriesContext(connection) as sent:
        response = client.post("/links/known", {"target_url": OTHER, "key": "x", "hits": "9"})
    assert (response.status_code, response["Location"]) == (303, "/links")
    # Whose it is, is asked by the statement that changes it.
    (update,) = [each["sql"] for each in sent if each["sql"].startswith("UPDATE")]
    assert f'"owner_id" = {owner.pk}' in update
    assert (stored().target_url, stored().hits) == (OTHER, 0)
    assertContains(client.get("/links"), "/known is changed.")


@pytest.mark.parametrize("target_url", ["", "javascript:alert(1)", "http://testserver/x"])
def test_says_what_is_wrong_with_a_target(client: Client, owner: User, target_url: str) -> None:
    response = client.post("/links/known", {"target_url": target_url})
    assertContains(response, "<title>Error: Edit known · shorturl</title>", status_code=422)
    assertContains(response, 'class="errorlist"', status_code=422)
    assert stored().target_url == TARGET


def test_deletes_after_asking(client: Client, owner: User) -> None:
    assertContains(client.get("/links/known/delete"), "Delete /known?")
    assert client.get("/known").status_code == 302
    response = client.post("/links/known/delete", follow=True)
    assert response.redirect_chain == [("/links", 303)]
    assertContains(response, "/known is deleted.")
    assert client.get("/known").status_code == 404
    assert client.post("/links/known/delete").status_code == 404


def test_another_site_changes_nothing(owner: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner)
    for path in ("/links/known", "/links/known/delete"):
        assert browser.post(path, {"target_url": OTHER}).status_code == 403
        assert browser.put(path).status_code == 405
    assert (stored().target_url, stored().deleted_at) == (TARGET, None)
