"""Links a day (here three for a token or an account, two for a network), and what a 429 says."""

from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, transaction
from django.db.backends.utils import CursorWrapper
from django.test import Client, RequestFactory
from pytest_django import Settings
from pytest_django.asserts import assertContains

from shorturl.exceptions import KeyTaken, TooManyCreates
from shorturl.limits import quotas
from shorturl.models import IdempotencyRecord, QuotaUsage, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, bulk, create, errors, user, with_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


@pytest.fixture(autouse=True)
def limits(settings: Settings) -> None:
    settings.SHORTURL_LINKS_PER_DAY, settings.SHORTURL_PUBLIC_LINKS_PER_DAY = 3, 2


def spent() -> list[int]:
    return list(QuotaUsage.objects.order_by("id").values_list("spent", flat=True))


def test_each_token_account_and_network_has_a_separate_quota(client: Client) -> None:
    for token in (with_token(), with_token()):
        assert [create(token).status_code for _ in range(4)] == [201, 201, 201, 429]
    for address in ("192.0.2.1", "198.51.100.7"):
        public = [create(client, REMOTE_ADDR=address).status_code for _ in range(3)]
        assert public == [201, 201, 429]
    assert create(client, REMOTE_ADDR="192.0.2.200").status_code == 429  # network of 192.0.2.1
    client.force_login(user())
    posted = [client.post("/", {"target_url": TARGET}).status_code for _ in range(4)]
    assert posted == [303, 303, 303, 429]
    assert spent() == [3, 3, 2, 2, 3]  # two tokens, two networks, and the account
    assert ShortUrl.objects.count() == sum(spent())
    assert not QuotaUsage.objects.filter(spender__contains="192.0.2").exists()  # only hashes


def test_a_429_says_when_to_try_again_and_the_form_keeps_what_was_typed(
    client: Client, api: Client, settings: Settings
) -> None:
    settings.SHORTURL_LINKS_PER_DAY = 1
    assert create(api).status_code == 201
    with patch("shorturl.limits.quotas.time.time", return_value=79_200.5):  # 22:00
        response = create(api)
    seconds = int(response["Retry-After"])
    assert seconds == 7_200  # at midnight
    assert response["RateLimit-Policy"] == '"day";q=1;w=86400'
    assert response["RateLimit"] == f'"day";r=0;t={seconds}'
    detail = "The quota of 1 link a day is used up. Try again in 2 hours."
    assert response.json()["detail"] == detail
    assert [create(client).status_code for _ in range(2)] == [201, 201]
    response = client.post("/", {"target_url": TARGET, "key": "mine"})
    message = "The quota of 2 links a day from one network is used up. Try again in"
    assertContains(response, message, status_code=429)
    assertContains(response, 'value="mine"', status_code=429)
    assert response["RateLimit-Policy"] == '"day";q=2;w=86400'


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [(1, "1 minute"), (61, "2 minutes"), (3_600, "60 minutes"), (3_601, "2 hours")],
)
def test_a_wait_is_rounded_up(seconds: int, wait: str) -> None:
    assert str(TooManyCreates(1, "1 link a day", seconds=seconds)).endswith(f" again in {wait}.")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("in_a_transaction", [False, True], ids=["once", "repeatable"])
@pytest.mark.parametrize(
    ("error", "spent_at_the_end"), [(KeyTaken("k"), [0]), (OperationalError("no answer"), [2])]
)
def test_on_a_cluster_a_create_locks_no_quota_and_gives_it_back_if_there_is_no_link(
    error: Exception,
    spent_at_the_end: list[int],
    in_a_transaction: bool,
    settings: Settings,
    other_session: CursorWrapper,
) -> None:
    """A node that does not answer may have made the link, so that quota stays spent.

    The transaction of a request with an Idempotency-Key is open until its answer is stored.
    """
    settings.DATABASE_CITUS = True

    def fail() -> None:
        # NOWAIT raises an error if the row is locked.
        other_session.execute("SELECT spent FROM shorturl_quotausage FOR UPDATE NOWAIT")
        assert other_session.fetchall() == [(2,)]
        raise error

    with pytest.raises(type(error)), transaction.atomic() if in_a_transaction else nullcontext():
        quotas.spend("account 1", fail, links=2)
    assert spent() == spent_at_the_end


def reuse(client: Client, target_url: str = TARGET, **kwargs: Any) -> int:
    """Return the status: 201 for a new link, and 200 for one that exists."""
    body = {"target_url": target_url, "reuse": True}
    return int(create(client, body, **kwargs).status_code)


def test_a_spent_quota_refuses_only_a_reuse_that_would_make_a_link(
    client: Client, settings: Settings
) -> None:
    settings.SHORTURL_LINKS_PER_DAY = 1
    token = with_token(user=user())
    assert [reuse(token) for _ in range(3)] == [201, 200, 200]
    assert spent() == [1]
    assert reuse(token, OTHER) == 429
    assert reuse(token, headers={"Idempotency-Key": "a"}) == 429
    ShortUrl.objects.all().delete()
    assert reuse(token) == 429
    assert ShortUrl.objects.count() == 1
    client.force_login(user())
    for target_url, status in [(TARGET, 303), (TARGET, 303), (OTHER, 429)]:
        form = {"target_url": target_url, "reuse": "on"}
        assert client.post("/", form).status_code == status


def test_the_quota_bounds_the_answers_that_are_kept() -> None:
    """An answer that reuses a link costs one link, because it is kept. Repeating it is free."""
    token = with_token(user=user())
    # The quota is three. The second c gets the answer that was kept.
    for key, status in [("a", 201), ("b", 200), ("c", 200), ("c", 200), ("d", 429), ("e", 429)]:
        assert reuse(token, headers={"Idempotency-Key": key}) == status
    assert spent() == [3] == [IdempotencyRecord.objects.count()]
    assert ShortUrl.objects.count() == 1


def test_a_bulk_spends_the_links_that_it_creates(api: Client) -> None:
    def create_links(keys: str) -> Any:
        return bulk(api, *({"target_url": TARGET, "key": key} for key in keys))

    too_many = create_links("abcd")
    assert (too_many.status_code, errors(too_many)) == (422, {"links": "over_quota"})
    assert "4 links are more than the quota of 3 links a day" in too_many.json()["detail"]
    assert not ShortUrl.objects.exists()
    # A string is a list of keys. The second one costs nothing, as `a` is taken.
    for keys, status, links in [("a", 201, 1), ("ab", 409, 1), ("bc", 201, 3), ("d", 429, 3)]:
        assert create_links(keys).status_code == status
        assert spent() == [links] == [ShortUrl.objects.count()]


def test_without_limits_nothing_is_counted(client: Client, settings: Settings) -> None:
    settings.SHORTURL_PUBLIC_LINKS_PER_DAY = 0
    assert create(client).status_code == 201
    assert not QuotaUsage.objects.exists()


@pytest.mark.parametrize(
    ("address", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.255", True),  # the first 24 bits are the same
        ("192.0.2.1", "192.0.3.1", False),
        ("192.0.2.1", "::ffff:192.0.2.9", True),  # IPv4, written as IPv6
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),  # the first 64 bits are the same
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "not an address", True),  # callers without an address spend together, too
    ],
)
def test_the_spender_of_an_address_is_a_hash_of_its_network_with_the_secret_key(
    address: str, other: str, is_same: bool, settings: Settings
) -> None:
    def spender_of(remote: str) -> str:
        request = RequestFactory().post("/", REMOTE_ADDR=remote)
        return quotas.spender_of(AnonymousUser(), request)

    spender = spender_of(address)
    assert (spender == spender_of(other)) is is_same
    assert len(spender) <= 100  # the length of its column
    settings.SECRET_KEY = "another"
    assert spender_of(address) != spender
