"""Which responses may be stored and the answer to HEAD."""

from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client, RequestFactory
from pytest_django import Settings

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/nosuchkey", 404),  # a link may have this key tomorrow
        ("/static/nothing.css", 404),
        ("/admin", 302),
    ],
)
def test_a_response_that_may_change_is_not_stored(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert (response.status_code, response["Cache-Control"]) == (status, "no-store")
    has_document = status != 302
    assert ("Content-Type" in response) is ("X-Frame-Options" in response) is has_document
    assert ("Content-Security-Policy" in response) is has_document
    assert response["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/lab?a=1", "/lab/?a=1"),
        ("/lab/isolation", "/lab/isolation/"),
        ("/admin", "/admin/"),
        ("/links/?tag=a", "/links?tag=a"),
        ("/login/?next=/links", "/account/login/?next=/links"),
        ("/account/", "/account"),
        ("/api/docs/", "/api/docs"),
    ],
)
def test_a_path_with_or_without_its_last_slash_leads_to_the_page(
    client: Client, path: str, page: str
) -> None:
    response = client.get(path)
    assert (response.status_code // 100, response["Location"]) == (3, page)


def test_a_static_file_may_be_stored(client: Client, settings: Settings) -> None:
    settings.WHITENOISE_USE_FINDERS = True  # which the tests turn off
    for method in ("GET", "HEAD"):
        response = client.generic(method, "/static/shorturl/shorturl.css")
        response.close()
        assert "max-age" in response["Cache-Control"]
        assert response["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/nosuchkey", "/api/links", "/account"])
def test_by_https_a_browser_is_told_to_stay_there_and_by_http_is_sent_there(
    settings: Settings, path: str
) -> None:
    settings.SECURE_HSTS_SECONDS, settings.SECURE_SSL_REDIRECT = 60, True
    client = Client()
    for method in ("GET", "POST"):
        secure = client.generic(method, path, secure=True)
        assert secure["Strict-Transport-Security"] == "max-age=60"
        assert "Location" in secure or secure["X-Content-Type-Options"] == "nosniff"
        plain = client.generic(method, path)
        assert (plain.status_code, plain["Location"]) == (301, f"https://testserver{path}")
        assert "Content-Type" not in plain


@pytest.mark.parametrize("path", ["/account/login/", "/healthz", "/api/openapi.json"])
def test_head_is_get_without_the_body(path: str) -> None:
    """Django is called as gunicorn calls it: Django's test client would remove the body itself."""
    django: Any = WSGIHandler()
    requests = [RequestFactory().generic(method, path) for method in ("GET", "HEAD")]
    get, head = (django(request.environ, lambda *_: None) for request in requests)  # start_response
    assert get.content
    assert head.content == b""
    assert head.status_code == get.status_code
    assert head.get("Content-Length") == get.get("Content-Length")
