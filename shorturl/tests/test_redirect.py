"""GET and HEAD /<key>: the redirect."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from pytest_django.asserts import assertContains

from shorturl import operations
from shorturl.models import ShortUrl

TARGET_URL = "https://example.com/a/long/page?q=1#part"

# Target URLs, and what is sent for them; browser/test_pages.py asks a browser.
LOCATIONS = {
    "https://Bücher.example/": "https://xn--bcher-kva.example/",
    "https://bücher.example:8443/?": "https://xn--bcher-kva.example:8443/?",
    "https://bücher.example:/": "https://xn--bcher-kva.example/",
    "https://bücher.example//bücher.example?#": "https://xn--bcher-kva.example//b%C3%BCcher.example?#",
    "https://例え.jp/%20": "https://xn--r8jz45g.jp/%20",
    "https://example.com/Größe?q=ä#ß": "https://example.com/Gr%C3%B6%C3%9Fe?q=%C3%A4#%C3%9F",
    "https://[::1]/ä": "https://[::1]/%C3%A4",
    "https://example.com/%zz": "https://example.com/%zz",
    "HTTP://EXAMPLE.COM": "HTTP://EXAMPLE.COM",
    "https://example.com/<\"'>": "https://example.com/%3C%22'%3E",
}

pytestmark = pytest.mark.django_db


@pytest.fixture
def short_url() -> ShortUrl:
    return operations.create(TARGET_URL, key="spring")


def test_redirects_and_counts(client: Client, short_url: ShortUrl) -> None:
    """No session is read and no user looked up, so nothing depends on the cookies either."""
    client.force_login(User.objects.create_user("somebody"))
    assert "sessionid" in client.cookies
    for hits in (1, 2):
        with CaptureQueriesContext(connection) as sent:
            response = client.get("/spring")
        assert (response.status_code, response["Location"]) == (302, TARGET_URL)
        assert len(sent) == 1
        assert sent[0]["sql"].startswith(
            "UPDATE \"shorturl_shorturl\" SET hits = hits + 1 WHERE key = 'spring' RETURNING "
        )
        short_url.refresh_from_db()
        assert short_url.hits == hits
    assert (response.content, response["Content-Length"]) == (b"", "0")
    assert not response.cookies
    assert response["Cache-Control"] == "private, no-store"
    assert not {"Vary", "Expires"} & response.headers.keys()


def test_head_redirects_without_counting(client: Client, short_url: ShortUrl) -> None:
    with CaptureQueriesContext(connection) as sent:
        response = client.head("/spring")
    assert (response.status_code, response["Location"]) == (302, TARGET_URL)
    assert response["Cache-Control"] == "private, no-store"
    assert len(sent) == 1
    short_url.refresh_from_db()
    assert short_url.hits == 0


@pytest.mark.parametrize("path", ["/SPRING", "/spring/", "/spring%0A", "/spr%C3%AFng"])
def test_unknown(client: Client, short_url: ShortUrl, path: str) -> None:
    client.force_login(User.objects.create_user("somebody"))
    with CaptureQueriesContext(connection) as sent:
        assertContains(client.get(path), "Page not found", status_code=404)
    assert len(sent) <= 1  # the user is not asked for
    assert client.head(path).status_code == 404


def test_other_methods(short_url: ShortUrl) -> None:
    for method in ("POST", "OPTIONS"):
        response = Client(enforce_csrf_checks=True).generic(method, "/spring")
        assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")
    short_url.refresh_from_db()
    assert short_url.hits == 0


@pytest.mark.parametrize(("target_url", "location"), LOCATIONS.items())
def test_location_is_what_a_browser_would_send(
    client: Client, target_url: str, location: str
) -> None:
    operations.create(target_url, key="idn")
    assert client.get("/idn")["Location"] == location
    assert ShortUrl.objects.get().target_url == target_url


def test_contention_is_a_503(
    client: Client, short_url: ShortUrl, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SHORTURL_RESOLVING = "compare_and_swap"
    monkeypatch.setattr("shorturl.resolving.compare_and_swap.ATTEMPTS", 0)
    response = client.get("/spring")
    assertContains(response, "Too many requests follow this short URL", status_code=503)
    assert response["Retry-After"] == "1"
