"""GET and HEAD /<key>/stats, the page of a short URL, and its QR code."""

import re
from xml.etree import ElementTree

import pytest
import segno
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertInHTML

from shorturl import operations
from shorturl.links.validators import location
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db


@pytest.fixture
def short_url() -> ShortUrl:
    return operations.create("https://example.com/page?a=1&b=2", key="spring")


def test_shows_the_short_url_and_its_hits_and_adds_none(
    client: Client, short_url: ShortUrl
) -> None:
    ShortUrl.objects.update(hits=12_345)
    with CaptureQueriesContext(connection) as sent:
        response = client.get("/spring/stats")
    assert len(sent) == 2  # the link, and its hits and visits
    assertContains(response, "<title>spring · shorturl</title>")
    assertContains(response, 'value="http://testserver/spring" readonly')
    assertInHTML(
        '<a href="https://example.com/page?a=1&amp;b=2" rel="nofollow noopener noreferrer ugc">'
        "<bdi>https://example.com/page?a=1&amp;b=2</bdi></a>",
        response.content.decode(),
    )
    assertContains(response, f'datetime="{short_url.created_at:%Y-%m-%dT%H:%M:%S}')
    assertContains(response, '<dd class="hits">12,345</dd>')
    client.get("/spring/qr.svg")
    short_url.refresh_from_db()
    assert short_url.hits == 12_345


@pytest.mark.parametrize("path", ["/spring/stats", "/spring/qr.svg"])
def test_other_methods_and_other_keys(client: Client, short_url: ShortUrl, path: str) -> None:
    response = client.head(path)
    assert (response.status_code, response.content) == (200, b"")
    response = Client(enforce_csrf_checks=True).post(path)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")
    assert client.get(path.replace("spring", "summer")).status_code == 404
    short_url.delete()
    assert client.get(path).status_code == 404


def test_the_target_is_text(client: Client) -> None:
    target_url = "https://example.com/\"><script>alert('{{settings.SECRET_KEY}}{%debug%}')</script>"
    operations.create(target_url, key="xss")
    page = client.get("/xss/stats").content.decode()
    assert f"<bdi>{escape(target_url)}</bdi>" in page
    assert "<script>" not in page
    assert re.findall(r'<a href="([^"]*)" rel=', page) == [escape(location(target_url))]


def test_qr_code_of_the_short_url_is_dark_on_light_with_its_margin(
    client: Client, settings: Settings
) -> None:
    """A very short URL has no micro QR code either, because few phones read those."""
    settings.ALLOWED_HOSTS = ["a.b"]
    operations.create("https://example.com/", key="x")
    response = client.get("/x/qr.svg", headers={"host": "a.b"})
    assert response["Content-Type"] == "image/svg+xml"
    svg = ElementTree.fromstring(response.content)
    light, dark = svg.iter("{http://www.w3.org/2000/svg}path")
    expected = segno.make_qr("http://a.b/x")
    assert expected.symbol_size() > segno.make_micro("http://a.b/x").symbol_size()
    size = expected.symbol_size(border=0)[0] + 2 * 4
    assert svg.get("viewBox") == f"0 0 {size} {size}"
    assert (light.get("fill"), light.get("d")) == ("#fff", f"M0 0h{size}v{size}h-{size}z")
    assert dark.get("stroke") == "#000"
    assert f' d="{dark.get("d")}"' in expected.svg_inline()
