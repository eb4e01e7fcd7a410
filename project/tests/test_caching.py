"""Which responses may be kept."""

import pytest
from django.test import Client
from pytest_django import Settings

from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/nosuchkey", 404),  # there may be one tomorrow
        ("/nosuchkey/stats", 404),
        ("/no/such/path", 404),
        ("/static/nothing.css", 404),
        ("/spring/qr.svg", 200),
        ("/admin", 302),
    ],
)
def test_what_may_change_is_not_kept(client: Client, path: str, status: int) -> None:
    ShortUrl.objects.create(key="spring", target_url="https://example.com/")
    response = client.get(path)
    assert response.status_code == status
    assert response["Cache-Control"] == "no-store"


def test_an_unknown_host_is_not_kept(client: Client) -> None:
    response = client.get("/", headers={"host": "example.net"})
    assert (response.status_code, response["Cache-Control"]) == (400, "no-store")


def test_a_static_file_is_kept(client: Client, settings: Settings) -> None:
    settings.WHITENOISE_USE_FINDERS = True
    response = client.get("/static/shorturl/shorturl.css")
    response.close()
    assert "max-age" in response["Cache-Control"]
