"""What docs/scaling.md says of pages on a cluster, as far as a plain PostgreSQL goes."""

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from project import citus
from project.tests import citus_walk
from shorturl.models import ShortUrl

TARGET = "https://example.com/"
TABLES = "|".join(model._meta.db_table for model in citus.BY_KEY)
TABLE_BY_KEY = re.compile(rf'(?:FROM|INTO|JOIN|UPDATE) "?(?:{TABLES})\b')
NAMED_KEY = re.compile(r"""\bkey"? = '|INSERT INTO \S+ .*\bkey""")
pytestmark = pytest.mark.django_db

ONE_SHARD: list[tuple[str, str, Any]] = [
    ("post", "/", {"target_url": TARGET, "key": "made"}),
    ("get", "/known", None),
    ("get", "/known/stats", None),
    ("get", "/known/qr.svg", None),
    ("post", "/links/known", {"target_url": TARGET, "max_hits": "9"}),
    ("post", "/links/known/delete", {}),
    ("get", "/api/links/known", None),
    ("get", "/api/links/known/visits", None),
    ("patch", "/api/links/known", {"max_hits": 9}),
    ("delete", "/api/links/known", None),
]


@pytest.mark.parametrize(("method", "path", "data"), ONE_SHARD)
def test_what_is_one_shards_names_the_key_for_every_table(
    method: str, path: str, data: Any, client: Client, settings: Settings
) -> None:
    settings.SHORTURL_VISITS = "one_transaction"
    walker = get_user_model().objects.create_user("walker")
    client.force_login(walker)
    ShortUrl.objects.create(key="known", target_url=TARGET, owner=walker)
    options = {"content_type": "application/json"} if method == "patch" else {}
    with CaptureQueriesContext(connection) as captured:
        response = getattr(client, method)(path, data, **options)
    assert response.status_code in (200, 204, 302, 303)
    by_key = [sql for sql in (query["sql"] for query in captured) if TABLE_BY_KEY.search(sql)]
    assert by_key
    for sql in by_key:
        assert len(NAMED_KEY.findall(sql)) >= len(TABLE_BY_KEY.findall(sql)), sql


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("visits", ["combined", "one_transaction"])
def test_what_a_walk_through_the_service_is_answered_without_one(
    visits: str, settings: Settings
) -> None:
    settings.LOCAL, settings.SHORTURL_VISITS = True, visits
    assert citus_walk.walk() == {}
