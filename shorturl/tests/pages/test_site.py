"""What all pages have: header, footer and security headers; and the error pages."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import Http404
from django.test import Client, RequestFactory
from django.views import defaults
from django.views.csrf import csrf_failure
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl.checks import check_files
from shorturl.models import CLOCK, ShortUrl
from shorturl.pages.views import bad_request
from shorturl.tests.callers import TARGET, create_link, make_token, text, user, without_tags

pytestmark = pytest.mark.django_db

STATUS = {"/": 200, "/known+": 200, "/api/docs": 200, "/unknown": 404, "/no/such/page": 404}
LOGO = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def test_every_page_has_the_operators_name_logo_and_links(
    client: Client, admin_client: Client, settings: Settings
) -> None:
    settings.SHORTURL_NAME = "Fern & Co"
    settings.SHORTURL_LOGO = "logo.svg"
    settings.SHORTURL_FOOTER_LINKS = {
        "Imprint": "https://example.com/imprint",
        "Report abuse": "mailto:abuse@example.com",
    }
    create_link()
    for path in ("/", "/account/login/", "/api/docs", "/known+", "/unknown"):
        page = client.get(path).text
        assert "· Fern &amp; Co<" in page
        assert '<img src="/static/logo" alt="" width="28" height="28">Fern &amp; Co<' in page
        assert 'href="https://example.com/imprint">Imprint' in page
        assert 'href="mailto:abuse@example.com">Report abuse' in page
    assertContains(admin_client.get("/admin/"), "· Fern &amp; Co<")


def test_the_logo_is_served_as_an_image(client: Client, settings: Settings, tmp_path: Path) -> None:
    assert client.get("/static/logo").status_code == 404
    settings.SHORTURL_LOGO = str(tmp_path / "logo.svg")
    (tmp_path / "logo.svg").write_bytes(LOGO)
    assert not list(check_files())
    logo = client.get("/static/logo")
    assert (logo.content, logo["Content-Type"]) == (LOGO, "image/svg+xml")
    assert logo["Cache-Control"] == "public, max-age=86400"
    assert "default-src 'none'" in logo["Content-Security-Policy"]  # an SVG can hold a script
    (tmp_path / "logo.svg").unlink()
    assert client.get("/static/logo").status_code == 404


@pytest.mark.parametrize(
    ("name", "reason"),
    [("logo.txt", "does not end like an image"), ("logo.png", "cannot be read: No such file")],
)
def test_a_logo_that_cannot_be_shown_prevents_the_start(
    settings: Settings, tmp_path: Path, name: str, reason: str
) -> None:
    settings.SHORTURL_LOGO = str(tmp_path / name)
    (error,) = check_files()
    assert error.id == "shorturl.E005"
    assert reason in error.msg


def test_visitors_of_the_first_page_are_redirected(client: Client, settings: Settings) -> None:
    settings.SHORTURL_HOME_REDIRECT = "https://example.com/about"
    assertRedirects(client.get("/"), "https://example.com/about", fetch_redirect_response=False)
    client.force_login(user())
    assertContains(client.get("/"), "Shorten a URL")


def test_api_and_admin_are_offered_to_those_who_can_use_them(client: Client) -> None:
    create_link()
    both = {"/api/docs", "/admin/"}
    for caller, offered in [(None, set()), (user(), {"/api/docs"}), (user(staff=True), both)]:
        if caller:
            client.force_login(caller)
        for path in ("/", "/known+"):
            page = client.get(path).text
            assert {link for link in both if f'href="{link}"' in page} == offered


def test_visitors_are_offered_a_log_in_and_users_my_links(client: Client) -> None:
    create_link()
    for path in ("/", "/known+", "/unknown"):
        assertContains(client.get(path), 'href="/account/login/"', status_code=STATUS[path])
    client.force_login(user())
    for path, status in STATUS.items():
        page = client.get(path)
        assertContains(page, 'href="/links">My links', status_code=status)
        assertNotContains(page, 'href="/account/login/"', status_code=status)
    page = client.post("/", {"target_url": TARGET}, follow=True)
    assert "It is in My links ." in text(page)
    assertNotContains(page, "keep the address of the page")  # as a visitor has to


# Title, heading, and where the links and forms of the content lead.
LINKS = "/links /links/delete/selected /known/stats /links/known /links/known/delete"
FOUND = "/links/found/stats /links/found.csv"
OF_LINK = "http://testserver/known http://testserver/known+ /known/qr.svg /known/qr.png"
OF_OWN_LINK = f"/links/found/stats?tags=a%26b {TARGET} /links/known /links/known/delete /"
PAGES = {
    "/": ("Shorten a URL", "Shorten a URL", ""),
    "/links": ("My links", "My links", f"{FOUND} {LINKS}"),
    "/links?q=zz": ("My links", "My links", "/links /links"),
    "/links/known": ("Edit known", "Edit /known", ""),
    "/links/known/delete": ("Delete known", "Delete /known?", ""),
    "/known/stats": ("known", "/known", f"{OF_LINK} {OF_OWN_LINK}"),
    "/known+": ("Where /known leads", "/known leads to example.com", "/known"),
    "/links/found/stats?tags=a": (
        "Visits of my links",
        "My links tagged a",
        "/links?tags=a /links/found/stats",
    ),
    "/account": (
        *("Account", "Account"),
        "/account/password_change/ /api/docs /account/tokens/1/revoke /account#tokens",
    ),
    "/account/password_change/": ("Change the password", "Change the password", ""),
    "/account/password_change/done/": ("Your password is set", "Your password is set", "/account"),
    "/account/login/": ("Log in", "Log in", "/account/password_reset/"),
    "/account/password_reset/": ("Forgot your password?", "Forgot your password?", ""),
    "/account/password_reset/done/": ("Check your e-mail", "Check your e-mail", "/account/login/"),
    "/account/reset/done/": ("Your password is set", "Your password is set", "/account/login/"),
    "/account/reset/x/y-z/": (
        *("Choose a password", "This link is no longer valid"),
        "/account/password_reset/",
    ),
    "/unknown": ("Not found", "Page not found", "/"),
    "/late": ("Gone", "This short URL has expired", ""),
    "/used": ("Gone", "This short URL is used up", ""),
}


def test_each_page_has_its_title_its_heading_and_its_links(client: Client) -> None:
    owner = user()
    client.force_login(owner)
    create_link(owner=owner, tags=["a&b"])
    create_link("late", owner=user(), expires_at=CLOCK)
    create_link("used", hits=1, max_hits=1)
    make_token(name="laptop", user=owner, pk=1)
    for path, expected in PAGES.items():
        response = client.get(path)
        assert client.head(path).status_code == response.status_code, path
        page = response.text
        (title,) = re.findall("<title>(.*?) · shorturl<", page)
        content = page.partition("<main")[2].partition("</main>")[0]
        (heading,) = re.findall("<h1>(.*?)</h1>", content)
        links = " ".join(re.findall(r'(?:href|action)="([/h][^"]*)"', content))
        assert (title, without_tags(heading), links) == expected, path
        assert content.count('method="post"') == content.count("csrfmiddlewaretoken"), path


class WithoutDatabase:
    """A user or a session that cannot be read: each attribute raises OperationalError."""

    def __getattribute__(self, name: str) -> Any:
        raise OperationalError


def test_error_pages_render_without_the_database(rf: RequestFactory) -> None:
    request: Any = rf.get("/<b>spring</b>")
    request.user = request.session = WithoutDatabase()
    for status, page in [
        (400, bad_request(request, Exception("secret"))),
        (403, defaults.permission_denied(request, Exception("not you"))),
        (403, csrf_failure(request)),
        (404, defaults.page_not_found(request, Http404())),
        (500, defaults.server_error(request)),
    ]:
        assertContains(page, f'<p class="status">{status}<', status_code=status)
        assertContains(page, "<h1>", count=1, status_code=status)
        assertContains(page, 'href="/static/shorturl/shorturl.css"', status_code=status)
        for hidden in ("secret", "/admin/", "/api/docs", "<b>"):
            assertNotContains(page, hidden, status_code=status)


def test_an_error_page_says_what_is_wrong(admin_client: Client) -> None:
    page = admin_client.get("/no/such<page>")
    assertContains(page, "/no/such%3Cpage%3E", status_code=404)
    assertContains(page, "A short URL may have been deleted", status_code=404)
    page = admin_client.get("/admin/shorturl/shorturl/add/")
    assertContains(page, "Your account is not allowed to do this.", status_code=403)
    assertNotContains(page, "/account/login/", status_code=403)
    detail = "The Host header names no host of this service (ALLOWED_HOSTS)."
    unknown_host = {"Host": "other.example"}
    assertContains(admin_client.get("/", headers=unknown_host), detail, status_code=400)
    answer = admin_client.get("/api/links", headers=unknown_host)
    assert (answer.status_code, answer.json()) == (400, {"detail": detail})


PATHS = ["/", "/account/login/", "/spring/stats", "/spring/qr.svg", "/unknown", "/no/such/page"]
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def test_security_headers_keep_a_browser_from_running_loading_and_framing_foreign_content() -> None:
    create_link("spring")
    for method, path in product(("GET", "POST", "PATCH"), PATHS):
        # The CSRF protection refuses a POST, with a page that has the headers, too.
        response = Client(enforce_csrf_checks=True).generic(method, path)
        assert response.headers.items() >= HEADERS.items(), (method, path)
        directives = response["Content-Security-Policy"].split("; ")
        policy = dict(directive.split(" ", 1) for directive in directives)
        assert policy.pop("default-src") == "'none'"
        assert set(policy.values()) <= {"'self'", "'none'"}
        assert {"base-uri", "form-action", "frame-ancestors"} <= set(policy)


@pytest.mark.parametrize("target", ["", "x", "http://[", "http://a:99999/", "http://%00/", "//a/"])
def test_a_target_that_only_sql_could_store_is_no_500(admin_client: Client, target: str) -> None:
    link = create_link("known")
    ShortUrl.objects.update(target_url=target, owner=User.objects.get())
    for path in ("/known", "/known+", "/known/stats", "/links", "/links/known", "/api/links/known"):
        expected = 400 if path in ("/known", "/known+") else 200
        assert admin_client.get(path).status_code == expected
    for path in ("/links/known", f"/admin/shorturl/shorturl/{link.pk}/change/"):
        page = admin_client.post(path, {"target_url": target, "title": "new"}, follow=True)
        assert page.status_code < 500
