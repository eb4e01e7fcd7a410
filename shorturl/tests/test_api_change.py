"""PATCH /api/links/{key}"""

from typing import Any

import pytest
from django.test import Client

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl
from shorturl.tests.api import OTHER, TARGET, bearer, change, fields


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({}, {"target_url": "missing"}),
        ({"target_url": "javascript:alert(1)"}, {"target_url": "scheme"}),
        ({"target_url": "http://testserver/"}, {"target_url": "own_host"}),
        ({"target_url": OTHER, "key": "mine"}, {"key": "extra_forbidden"}),
    ],
)
def test_what_cannot_be_changed_like_that(client: Client, body: Any, codes: Any) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    response = change(client, "known", body, headers=bearer())
    assert (response.status_code, fields(response)) == (422, codes)
    assert ShortUrl.objects.get().target_url == TARGET


@pytest.mark.django_db(transaction=True)
def test_hits_that_arrive_meanwhile_are_not_lost() -> None:
    """Whenever the link is followed during the PATCH, it leads on and its hit counts."""
    headers = bearer()

    def setup() -> None:
        ShortUrl.objects.all().erase()
        ShortUrl.objects.create(key="hot", target_url=TARGET)

    def both_are_kept(outcomes: list[Outcome]) -> None:
        assert [outcome.returned.status_code for outcome in outcomes] == [200, 302]
        assert outcomes[0].returned.json()["target_url"] == OTHER
        hot = ShortUrl.objects.get(key="hot")
        assert (hot.hits, hot.target_url) == (1, OTHER)

    explore(
        [
            lambda: change(Client(), "hot", {"target_url": OTHER}, headers=headers),
            lambda: Client().get("/hot"),
        ],
        setup=setup,
        invariant=both_are_kept,
    ).assert_safe()
