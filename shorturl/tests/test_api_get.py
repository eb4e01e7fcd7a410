"""GET /api/links/{key}"""

from typing import Any

import pytest
from django.test import Client

from shorturl.models import ShortUrl
from shorturl.tests.api import TARGET, user

pytestmark = pytest.mark.django_db


def test_shows_a_short_url_and_counts_no_hit(client: Client) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET, hits=2**62)
    for _ in range(2):
        link = client.get("/api/links/known").json()
    assert (link["key"], link["hits"], link["target_url"]) == ("known", 2**62, TARGET)
    assert link["short_url"] == "http://testserver/known"


@pytest.mark.parametrize(
    "key",
    ["unknown", "KNOWN", "gone", "known%0A", "%00", "%FF", "%ED%A0%80", "a" * 5_000, "known."],
)
def test_a_key_that_leads_nowhere(client: Client, key: str) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    ShortUrl.objects.create(key="gone", target_url=TARGET).delete()
    response = client.get(f"/api/links/{key}")
    assert response.status_code == 404
    assert response.json()["detail"].startswith("There is no short URL '")
    assert len(response.content) < 500


def test_head(client: Client) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    assert client.head("/api/links/known").status_code == 200
    response = client.head("/api/links/unknown")
    assert (response.status_code, response.content) == (404, b"")


def test_one_statement_even_for_who_is_logged_in(
    client: Client, django_assert_num_queries: Any
) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    client.force_login(user())
    with django_assert_num_queries(1):
        assert client.get("/api/links/known").status_code == 200


def test_is_not_for_caches(client: Client) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    assert client.get("/api/links/known")["Cache-Control"] == "no-store"
