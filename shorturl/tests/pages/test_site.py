"""The header and the footer of all pages, and what the operator sets for them."""

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl import operations
from shorturl.checks import check_logo
from shorturl.tests.callers import TARGET, user

pytestmark = pytest.mark.django_db

STATUS = {"/": 200, "/known+": 200, "/api/docs": 200, "/unknown": 404, "/no/such/page": 404}
LOGO = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def test_every_page_has_the_operators_name_logo_and_links(
    client: Client, admin_client: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.SHORTURL_NAME = "Fern & Co"
    settings.SHORTURL_LOGO = str(tmp_path / "logo.svg")
    (tmp_path / "logo.svg").write_bytes(LOGO)
    settings.SHORTURL_FOOTER_LINKS = {
        "Imprint": "https://example.com/imprint",
        "Report abuse": "mailto:abuse@example.com",
    }
    assert not list(check_logo())
    operations.create(TARGET, key="known")
    for path in ("/", "/account/login/", "/api/docs", "/known+", "/unknown"):
        page = client.get(path).content.decode()
        assert "· Fern &amp; Co</title>" in page
        assert '<img src="/static/logo" alt="" width="28" height="28">Fern &amp; Co</a>' in page
        assert '<a href="https://example.com/imprint">Imprint</a>' in page
        assert '<a href="mailto:abuse@example.com">Report abuse</a>' in page
    assertContains(admin_client.get("/admin/"), "· Fern &amp; Co</title>")
    logo = client.get("/static/logo")
    assert (logo.content, logo["Content-Type"]) == (LOGO, "image/svg+xml")
    assert logo["Cache-Control"] == "public, max-age=86400"
    assert "default-src 'none'" in logo["Content-Security-Policy"]  # an SVG can hold a script


@pytest.mark.parametrize(
    ("name", "reason"),
    [("logo.txt", "does not end like an image"), ("logo.png", "cannot be read: No such file")],
)
def test_a_logo_that_cannot_be_shown_prevents_the_start(
    settings: Settings, tmp_path: Path, name: str, reason: str
) -> None:
    settings.SHORTURL_LOGO = str(tmp_path / name)
    (error,) = check_logo()
    assert (error.id, reason in error.msg) == ("shorturl.E005", True)


def test_visitors_of_the_first_page_are_redirected(client: Client, settings: Settings) -> None:
    assert client.get("/static/logo").status_code == 404
    settings.SHORTURL_HOME_REDIRECT = "https://example.com/about"
    assertRedirects(client.get("/"), "https://example.com/about", fetch_redirect_response=False)
    client.force_login(user())
    assertContains(client.get("/"), "Shorten a URL")


def test_api_and_admin_are_offered_to_those_who_can_use_them(client: Client) -> None:
    operations.create(TARGET, key="known")
    for caller, offered in [(None, (0, 0)), (user(), (1, 0)), (user(staff=True), (1, 1))]:
        if caller:
            client.force_login(caller)
        for path in ("/", "/known+"):
            page = client.get(path).content.decode()
            links = tuple(page.count(f'href="{link}"') for link in ("/api/docs", "/admin/"))
            assert links == offered


def test_the_header_offers_a_log_in_or_my_links(client: Client) -> None:
    operations.create(TARGET, key="known")
    for path in ("/", "/known+", "/unknown"):
        assertContains(client.get(path), 'href="/account/login/"', status_code=STATUS[path])
    client.force_login(user())
    for path in STATUS:
        page = client.get(path)
        assertContains(page, '<a href="/links">My links</a>', status_code=STATUS[path])
        assertNotContains(page, 'href="/account/login/"', status_code=STATUS[path])


def test_a_page_speaks_to_the_owner(client: Client) -> None:
    client.force_login(user())
    response = client.post("/", {"target_url": TARGET}, follow=True)
    assertContains(response, 'It is in <a href="/links">My links</a>.')
    assertNotContains(response, "keep the address of the page")
