"""Every page keeps the browser from running, loading and framing foreign content."""

from itertools import product

import pytest
from django.test import Client

from shorturl import operations

PATHS = ["/", "/login", "/spring/stats", "/spring/qr.svg", "/unknown", "/no/such/page"]
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@pytest.mark.django_db
def test_headers() -> None:
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
