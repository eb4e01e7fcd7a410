"""GET and HEAD /<key>: the redirect."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.asserts import assertContains

from shorturl import following
from shorturl.models import CLOCK, RecentVisits, ShortUrl
from shorturl.tests.callers import create_link, user

TARGET_URL = "https://example.com/a/long/page?q=1#part"

# Target URLs and their Location; browser/test_pages.py compares them with a browser.
LOCATIONS = {
    "https://Bücher.example/": "https://xn--bcher-kva.example/",
    "https://bücher.example:8443/?": "https://xn--bcher-kva.example:8443/?",
    "https://bücher.example//bücher.example?#": "https://xn--bcher-kva.example//b%C3%BCcher.example?#",
    "https://例え.jp/%20": "https://xn--r8jz45g.jp/%20",
    "https://example.com/Größe?q=ä#ß": "https://example.com/Gr%C3%B6%C3%9Fe?q=%C3%A4#%C3%9F",
    "https://[2001:db8::1]/ä": "https://[2001:db8::1]/%C3%A4",
    "https://example.com/%zz": "https://example.com/%zz",
    "HTTP://EXAMPLE.COM": "http://example.com/",
    "https://my_bucket.example:/": "https://my_bucket.example/",
    "http://3405803785/": "http://203.0.113.9/",
    "https://example.com/<\"'>": "https://example.com/%3C%22'%3E",
}

pytestmark = pytest.mark.django_db


def test_a_get_redirects_and_counts_and_a_head_only_redirects(client: Client) -> None:
    """No session is read and no user looked up, so the answer does not depend on cookies."""
    create_link(target_url=TARGET_URL)
    client.force_login(user())
    assert "sessionid" in client.cookies
    for hits in (1, 2):
        with CaptureQueriesContext(connection) as sent:
            response = client.get("/known")
        assert (response.status_code, response["Location"]) == (302, TARGET_URL)
        assert len(sent) == 1
        assert ShortUrl.objects.get().hits == RecentVisits.objects.count() == hits
    assert (response.content, response["Content-Length"]) == (b"", "0")
    assert not response.cookies
    assert response["Cache-Control"] == "private, no-store"
    assert not {"Vary", "Expires"} & response.headers.keys()
    with CaptureQueriesContext(connection) as sent:
        head = client.head("/known")
    assert (head.status_code, head.headers, len(sent)) == (302, response.headers, 1)
    assert ShortUrl.objects.get().hits == 2


def test_the_punctuation_behind_a_short_url_is_dropped_and_its_query_is_kept(
    client: Client,
) -> None:
    create_link("a")
    for path, location in {"/a).?page=2": "/a?page=2", "/a!": "/a"}.items():
        assert client.get(path)["Location"] == location


@pytest.mark.parametrize("path", ["/KNOWN", "/known/", "/known%0A", "/kn%C3%B6wn"])
def test_an_unknown_key_is_a_404(client: Client, path: str) -> None:
    create_link()
    client.force_login(user())
    with CaptureQueriesContext(connection) as sent:
        assertContains(client.get(path), "Page not found", status_code=404)
    assert len(sent) <= 2  # the second finds out why nothing was counted; none reads the user
    assert client.head(path).status_code == 404


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({"expires_at": CLOCK}, "expired", "has expired"),
        ({"hits": 1, "max_hits": 1}, "used up", "is used up"),
        # For a link that is both, more uses would not help, so the expiry is named.
        ({"expires_at": CLOCK, "hits": 1, "max_hits": 1}, "expired", "has expired"),
    ],
)
def test_the_end_of_a_link_is_a_410(
    client: Client, values: dict[str, Any], state: str, reason: str
) -> None:
    create_link("past", **values)
    page = client.get("/past")
    assertContains(page, f"This short URL {reason}", status_code=410)
    assertContains(page, "/past", status_code=410)
    assert page["Cache-Control"] == "no-store"  # a limit can be raised, and an expiry moved
    response = client.get("/past", headers={"accept": "application/json"})
    assert (response.status_code, response.json()["state"]) == (410, state)
    assert f"'past' {reason}" in response.json()["detail"]
    assert ShortUrl.objects.get().hits == values.get("hits", 0)


def test_a_link_that_becomes_live_again_meanwhile_is_a_503(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first query counts no hit of a used-up link. Then its limit is raised.

    The second query, which asks why nothing was counted, finds a link that is live.
    """
    create_link("once", hits=1, max_hits=1)
    raised = create_link("raised", hits=1, max_hits=2)
    monkeypatch.setattr(following, "look_up", lambda key: raised)
    assert client.get("/once").status_code == 503


@pytest.mark.parametrize(("target_url", "location"), LOCATIONS.items())
def test_the_location_is_encoded_as_in_a_browser(
    client: Client, target_url: str, location: str
) -> None:
    create_link(target_url=target_url)
    assert client.get("/known")["Location"] == location
    assert ShortUrl.objects.get().target_url == target_url
