"""Every page keeps the browser from running, loading and framing what is not ours."""

import pytest
from django.test import Client

from shorturl import operations

PATHS = ["/", "/login", "/spring", "/spring/stats", "/spring/qr.svg", "/unknown", "/no/such/page"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_headers(path: str, method: str) -> None:
    operations.create("https://example.com/", key="spring")
    # A POST is refused by the CSRF protection: those pages count too.
    response = Client(enforce_csrf_checks=True).generic(method, path)
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    policy = dict(
        directive.strip().split(" ", 1)
        for directive in response["Content-Security-Policy"].split(";")
    )
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) <= {"'self'", "'none'"}
    assert {"base-uri", "form-action", "frame-ancestors"} <= set(policy)
