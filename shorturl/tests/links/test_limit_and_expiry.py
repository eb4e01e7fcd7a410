"""Limit and expiry: set, changed, removed and refused."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from shorturl import operations
from shorturl.exceptions import LimitTooLow
from shorturl.models import CLOCK, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, bulk, change, create, fields, shown, user
from shorturl.transfer import link_files

pytestmark = pytest.mark.django_db

LATER = "2099-12-31T23:59:59Z"


def state(client: Client, key: str) -> tuple[int, str]:
    """Return the status of a HEAD of the link, and its state in the API."""
    return client.head(f"/{key}").status_code, client.get(f"/api/links/{key}").json()["state"]


def test_by_the_api(client: Client, headers: dict[str, str]) -> None:
    body = {"target_url": TARGET, "key": "two", "max_hits": 2, "expires_at": LATER}
    link = create(client, body).json()
    assert (link["max_hits"], link["expires_at"], link["state"]) == (2, LATER, "live")
    assert [client.get("/two").status_code for _ in range(3)] == [302, 302, 410]
    assert state(client, "two") == (410, "used up")
    assert change(client, "two", {"max_hits": 3}, headers=headers).json()["state"] == "live"
    assert client.get("/two").status_code == 302
    assert change(client, "two", {"max_hits": None}, headers=headers).json()["max_hits"] is None
    ShortUrl.objects.update(expires_at=CLOCK)
    assert state(client, "two") == (410, "expired")
    change(client, "two", {"expires_at": LATER}, headers=headers)
    assert state(client, "two") == (302, "live")
    changed = change(client, "two", {"expires_at": None}, headers=headers).json()
    assert (changed["expires_at"], changed["target_url"], changed["hits"]) == (None, TARGET, 3)


def test_an_expiry_with_any_offset_is_stored_in_utc(
    client: Client, headers: dict[str, str]
) -> None:
    """PostgreSQL itself accepts offsets below 16 hours."""
    expiry = "2099-01-02T00:00:00+23:59"
    body = {"target_url": TARGET, "key": "one", "expires_at": expiry}
    assert create(client, body).json()["expires_at"] == "2099-01-01T00:01:00Z"
    body["key"] = "two"
    assert bulk(client, body, headers=headers).status_code == 201
    posted = client.post("/", {**body, "key": "three", "expires": "at"})
    assert posted.status_code == 303
    assert ShortUrl.objects.values("expires_at").distinct().count() == 1
    assert str(link_files.value_of("expires_at", expiry)) == "2099-01-01 00:01:00+00:00"


def test_a_limit_below_the_hits_counted(client: Client, headers: dict[str, str]) -> None:
    """A CHECK constraint refuses the limit."""
    link = ShortUrl.objects.create(key="hot", target_url=TARGET, hits=7)
    response = change(client, "hot", {"max_hits": 6}, headers=headers)
    assert (response.status_code, fields(response)) == (422, {"max_hits": "too_low"})
    assert "The limit 6 is below the hits that were counted" in response.json()["detail"]
    link.refresh_from_db()
    assert (link.hits, link.max_hits) == (7, None)
    assert change(client, "hot", {"max_hits": 7}, headers=headers).json()["hits"] == 7
    assert state(client, "hot") == (410, "used up")
    with pytest.raises(IntegrityError, match="shorturl_shorturl_limit_ck"), transaction.atomic():
        ShortUrl.objects.update(max_hits=6)
    with pytest.raises(IntegrityError, match="shorturl_shorturl_max_hits_ck"), transaction.atomic():
        ShortUrl.objects.create(key="zero", target_url=TARGET, max_hits=0)


def test_another_owners_link_gets_no_limit() -> None:
    mine, yours = user(), user()
    ShortUrl.objects.create(key="ours", target_url=TARGET, owner=mine, hits=6)
    assert not operations.change(ShortUrl.objects.filter(owner=yours), max_hits=5)
    with transaction.atomic():  # the request's, which stays usable
        with pytest.raises(LimitTooLow):
            operations.change(ShortUrl.objects.filter(owner=mine), max_hits=5)
        assert operations.change(ShortUrl.objects.filter(owner=mine), max_hits=6)


def test_by_the_form_and_on_the_pages(client: Client) -> None:
    client.force_login(user())
    fields = {"target_url": TARGET, "key": "two", "expires": "at", "expires_at": LATER[:-1]}
    refused = client.post("/", {**fields, "max_hits": "0"})
    assert (refused.status_code, "greater than or equal to 1" in refused.text) == (422, True)
    assert client.post("/", {**fields, "max_hits": "2"}).status_code == 303
    link = ShortUrl.objects.get()
    assert (link.max_hits, link.expires_at) == (2, datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC))
    page = client.get("/two/stats").text
    assert "of 2" in page
    assert "31 Dec 2099, 23:59 UTC" in page
    for _ in range(2):
        client.get("/two")
    assert "used up" in client.get("/two/stats").text
    unlimited = shown(client.get("/links/two")) | {"max_hits": "", "expires": ""}
    assert client.post("/links/two", unlimited).status_code == 303
    link.refresh_from_db()
    assert (link.max_hits, link.expires_at) == (None, None)
    ShortUrl.objects.update(expires_at=CLOCK)
    assert "Expired" in client.get("/two/stats").text
    expires_at = ShortUrl.objects.get().expires_at
    assert expires_at
    kept = shown(client.get("/links/two")) | {"target_url": OTHER}
    assert client.post("/links/two", kept).status_code == 303
    assert (ShortUrl.objects.get().target_url, ShortUrl.objects.get().expires_at) == (
        OTHER,
        expires_at,
    )


def test_in_the_admin(client: Client) -> None:
    client.force_login(user("view_shorturl", "change_shorturl", staff=True))
    link = ShortUrl.objects.create(key="hot", target_url=TARGET, hits=3)
    path = f"/admin/shorturl/shorturl/{link.pk}/change/"
    below = client.post(path, {"target_url": TARGET, "max_hits": "2"}).text
    assert "is below the hits that were counted" in below
    past = {"target_url": TARGET, "expires_at": "2020-01-01T00:00:00"}
    assert "is in the past" in client.post(path, past).text
    assert client.post(path, {"target_url": TARGET, "max_hits": "3"}).status_code == 302
    assert "used up" in client.get("/admin/shorturl/shorturl/").text


@pytest.mark.parametrize("in_the_admin", [False, True])
def test_a_form_keeps_concurrent_changes_of_other_fields(
    client: Client, headers: dict[str, str], in_the_admin: bool
) -> None:
    owner = user("view_shorturl", "change_shorturl", staff=True)
    client.force_login(owner)
    values = {"max_hits": 5, "expires_at": LATER, "owner": owner}
    link = ShortUrl.objects.create(key="hot", target_url=TARGET, **values)
    path = f"/admin/shorturl/shorturl/{link.pk}/change/" if in_the_admin else "/links/hot"
    form = shown(client.get(path))
    changed = {"target_url": OTHER, "max_hits": 9, "expires_at": "2098-01-01T00:00:00Z"}
    assert change(client, "hot", changed, headers=headers).status_code == 200
    assert client.post(path, form).status_code in (302, 303)
    # The form keeps the initial values also when it comes back with an error.
    form = shown(client.post(path, form | {"max_hits": "0"})) | {"max_hits": ""}
    assert client.post(path, form).status_code in (302, 303)
    link.refresh_from_db()
    assert (link.target_url, link.max_hits, link.owner) == (OTHER, None, owner)
    assert link.expires_at == datetime(2098, 1, 1, tzinfo=UTC)
