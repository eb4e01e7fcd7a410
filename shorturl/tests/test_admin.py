"""/admin/ of short URLs: looking, editing a target without losing a hit, deleting."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import reverse

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl
from shorturl.resolving.update_returning import resolve
from shorturl.tests.api import OTHER, TARGET, user

pytestmark = pytest.mark.django_db

LIST = "/admin/shorturl/shorturl/"


@pytest.fixture
def staff() -> User:
    return User.objects.create_superuser("staff")


@pytest.fixture
def browser(client: Client, staff: User) -> Client:
    client.force_login(staff)
    return client


@pytest.fixture
def link() -> ShortUrl:
    return ShortUrl.objects.create(key="known", target_url=TARGET, hits=3)


def page(link: ShortUrl, name: str = "change") -> str:
    return reverse(f"admin:shorturl_shorturl_{name}", args=[link.pk])


def text(response: Any) -> str:
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode()).split())


def rows(response: Any) -> list[str]:
    """Return the keys that a list shows."""
    return re.findall(r'field-key"><a [^>]*>(\w+)</a>', response.content.decode())


# Looking


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["gone", "known"]),
        ("q=kno", ["known"]),
        ("q=OTHER", ["gone"]),
        ("q=nothing", []),
        ("deleted=yes", ["gone"]),
        ("deleted=no", ["known"]),
        ("deleted=maybe", ["gone", "known"]),
    ],
)
def test_search_and_filters(
    browser: Client, link: ShortUrl, query: str, expected: list[str]
) -> None:
    ShortUrl.objects.create(key="gone", target_url=OTHER).delete()
    assert rows(browser.get(f"{LIST}?{query}")) == expected


def test_a_long_target_is_cut(browser: Client, link: ShortUrl) -> None:
    ShortUrl.objects.update(target_url="https://example.com/".ljust(2_000, "a"))
    assert "a" * 100 not in browser.get(LIST).content.decode()


def test_a_list_is_a_bounded_number_of_statements(
    browser: Client, django_assert_max_num_queries: Any, link: ShortUrl
) -> None:
    for number in range(60):
        ShortUrl.objects.create(key=f"key{number}", target_url=TARGET)
    # The session, the user, how many there are, one page of them, and none per link.
    with django_assert_max_num_queries(6) as sent:
        assert len(rows(browser.get(f"{LIST}?q=key"))) == 50
    counts = [query["sql"] for query in sent if "COUNT(" in query["sql"]]
    assert len(counts) == 1


def test_nothing_is_made_here(browser: Client) -> None:
    response = browser.get(LIST)
    assert f'href="{reverse("index")}"' in response.content.decode()
    assert "Create a short URL" in text(response)
    for answer in (browser.get(f"{LIST}add/"), browser.post(f"{LIST}add/", {"target_url": TARGET})):
        assert answer.status_code == 403
    assert not ShortUrl.objects.exists()


# Editing


def test_only_the_target_can_be_edited(browser: Client, link: ShortUrl) -> None:
    assert 'name="target_url"' in browser.get(page(link)).content.decode()
    sent = {"target_url": OTHER, "key": "mine", "hits": 0, "created_at": "", "deleted_at": "now"}
    assert browser.post(page(link), sent).status_code == 302
    edited = ShortUrl.objects.get()
    assert edited.target_url == OTHER
    assert (edited.key, edited.hits, edited.deleted_at) == ("known", 3, None)
    assert edited.created_at == link.created_at


@pytest.mark.django_db(transaction=True)
def test_hits_that_arrive_while_the_edit_is_saved() -> None:
    """The link is followed before, after and between all statements of the edit."""
    browser = Client()
    browser.force_login(User.objects.create_superuser("staff"))

    def setup() -> None:
        ShortUrl.objects.all().erase()
        ShortUrl.objects.create(key="known", target_url=TARGET)
        ContentType.objects.clear_cache()  # each schedule begins alike

    def edit() -> Any:
        return browser.post(page(ShortUrl.objects.get()), {"target_url": OTHER})

    def both_are_kept(outcomes: list[Outcome]) -> None:
        assert outcomes[0].returned.status_code == 302
        known = ShortUrl.objects.get()
        assert (known.hits, known.target_url) == (1, OTHER)

    explore([edit, lambda: resolve("known")], setup=setup, invariant=both_are_kept).assert_safe()


@pytest.mark.parametrize(
    ("target_url", "says"),
    [
        ("", "This field is required"),
        ("javascript:alert(1)", "start it with http:// or https://"),
        ("https://testserver/x", "is an address of this service"),
        ("https://me@example.com/", "leave out the part before the @"),
        ("https://example.com/" + "a" * 2_000, "use at most 2,000"),
        ("https://example.com/\0", "Null characters are not allowed"),
    ],
)
def test_a_target_that_cannot_be_one(
    browser: Client, link: ShortUrl, target_url: str, says: str
) -> None:
    assert says in text(browser.post(page(link), {"target_url": target_url}))
    assert ShortUrl.objects.get().target_url == TARGET


def test_no_target_is_too_long_to_be_pasted(browser: Client, link: ShortUrl) -> None:
    """At a maxlength, a browser cuts what is pasted without a word."""
    assert "maxlength" not in browser.get(page(link)).content.decode()


# Deleting


def test_the_confirmation_says_what_happens(browser: Client, link: ShortUrl) -> None:
    one = text(browser.get(page(link, "delete")))
    several = text(browser.post(LIST, {"action": "delete_selected", "_selected_action": [link.pk]}))
    for confirmation in (one, several):
        assert "the key is never reused" in confirmation
        assert "Short URLs: 1" in confirmation
    assert ShortUrl.objects.get().deleted_at is None


@pytest.mark.parametrize("several", [False, True])
def test_deleting_keeps_the_row(browser: Client, link: ShortUrl, several: bool) -> None:
    if several:
        sent = {"action": "delete_selected", "_selected_action": [link.pk], "post": "yes"}
        assert browser.post(LIST, sent).status_code == 302
    else:
        assert browser.post(page(link, "delete"), {"post": "yes"}).status_code == 302
    gone = ShortUrl.objects.get()
    assert (gone.key, gone.target_url, gone.hits) == ("known", TARGET, 3)
    assert gone.deleted_at is not None
    assert browser.get("/known").status_code == 404


def test_deleting_again_changes_nothing(browser: Client, link: ShortUrl) -> None:
    link.delete()
    before = ShortUrl.objects.get().deleted_at
    sent = {"action": "delete_selected", "_selected_action": [link.pk], "post": "yes"}
    browser.post(LIST, sent)
    assert browser.post(page(link, "delete"), {"post": "yes"}).status_code == 403
    assert ShortUrl.objects.get().deleted_at == before


def test_a_deleted_one_can_be_looked_at_and_not_edited(browser: Client, link: ShortUrl) -> None:
    link.delete()
    assert "deleted at" in text(browser.get(page(link))).lower()
    assert browser.post(page(link), {"target_url": OTHER}).status_code == 403
    assert ShortUrl.objects.get().target_url == TARGET


def test_who_may_only_look(client: Client, link: ShortUrl) -> None:
    client.force_login(user("view_shorturl", staff=True))
    assert rows(client.get(LIST)) == ["known"]
    assert 'name="target_url"' not in client.get(page(link)).content.decode()
    assert client.post(page(link), {"target_url": OTHER}).status_code == 403
    assert client.post(page(link, "delete"), {"post": "yes"}).status_code == 403
    assert ShortUrl.objects.get().deleted_at is None
