"""Error pages, none of which needs the database; and the security headers of all pages."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.http import Http404
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.views import defaults
from django.views.csrf import csrf_failure
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import operations
from shorturl.pages.views import bad_request


class Away:
    def __getattribute__(self, name: str) -> Any:
        raise OperationalError


def test_all_render_without_the_database(rf: RequestFactory) -> None:
    request: Any = rf.get("/<b>spring</b>")
    request.user = request.session = Away()
    for response, status in [
        (bad_request(request, Exception("secret")), 400),
        (defaults.permission_denied(request, Exception("not you")), 403),
        (csrf_failure(request), 403),
        (defaults.page_not_found(request, Http404()), 404),
        (defaults.server_error(request), 500),
    ]:
        assert response.status_code == status
        page = response.content.decode()
        assert f'<p class="status">{status}</p>' in page
        assert not [text for text in ("secret", "/admin/", "/api/docs", "<b>") if text in page]


def test_they_find_their_style_in_production(settings: Settings, tmp_path: Path) -> None:
    """There, the name of every static file has its hash. No page needs the request."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}
    }
    call_command(
        "collectstatic", interactive=False, verbosity=0, ignore_patterns=["admin", "ninja"]
    )
    for page in ("400", "403", "403_csrf", "404", "500", "503"):
        html = render_to_string(f"{page}.html")
        assert re.search(r'href="/static/shorturl/shorturl\.\w{12}\.css"', html)
        for path in re.findall(r'(?:href|src)="/static/([^"]+)"', html):
            assert (tmp_path / path).exists()
        assert len(re.findall(r"<h1>.+</h1>", html)) == 1


@pytest.mark.django_db
def test_a_404_names_the_path_and_a_403_asks_for_no_login(admin_client: Client) -> None:
    response = admin_client.get("/no/such<page>")
    assertContains(response, "<code>/no/such%3Cpage%3E</code>", status_code=404)
    assertContains(response, "A short URL may have been deleted", status_code=404)
    response = admin_client.get("/admin/shorturl/shorturl/add/")
    assertContains(response, "Your account is not allowed to do this.", status_code=403)
    assertNotContains(response, "/account/login/", status_code=403)


@pytest.mark.django_db
def test_an_unknown_host_is_explained(client: Client) -> None:
    detail = "The Host header names no host of this service (ALLOWED_HOSTS)."
    response = client.get("/api/links", headers={"Host": "other.example"})
    assert (response.status_code, response.json()) == (400, {"detail": detail})
    assertContains(client.get("/", headers={"Host": "other.example"}), detail, status_code=400)


PATHS = ["/", "/account/login/", "/spring/stats", "/spring/qr.svg", "/unknown", "/no/such/page"]
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@pytest.mark.django_db
def test_security_headers() -> None:
    """They keep a browser from running, loading and framing foreign content."""
    operations.create("https://example.com/", key="spring")
    for method, path in product(("GET", "POST", "PATCH"), PATHS):
        # The CSRF protection refuses a POST, with a page that has the headers, too.
        response = Client(enforce_csrf_checks=True).generic(method, path)
        assert response.headers.items() >= HEADERS.items(), (method, path)
        directives = response["Content-Security-Policy"].split("; ")
        policy = dict(directive.split(" ", 1) for directive in directives)
        assert policy.pop("default-src") == "'none'"
        assert set(policy.values()) <= {"'self'", "'none'"}
        assert {"base-uri", "form-action", "frame-ancestors"} <= set(policy)
