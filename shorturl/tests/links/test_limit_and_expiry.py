"""Limit and expiry: set, changed, removed and refused; test_my_links.py has more of the form."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from shorturl import operations
from shorturl.exceptions import LimitTooLow
from shorturl.models import CLOCK, ShortUrl
from shorturl.tests.callers import (
    OTHER,
    TARGET,
    change,
    create,
    create_link,
    errors,
    form_values,
    user,
)

pytestmark = pytest.mark.django_db

LATER = "2099-12-31T23:59:59Z"


def state(client: Client) -> tuple[int, str]:
    """Return the status of a HEAD of the link, and its state in the API."""
    return client.head("/known").status_code, client.get("/api/links/known").json()["state"]


def test_the_api_sets_changes_and_removes_limit_and_expiry(client: Client, api: Client) -> None:
    body = {"target_url": TARGET, "key": "known", "max_hits": 2, "expires_at": LATER}
    link = create(api, body).json()
    assert (link["max_hits"], link["expires_at"], link["state"]) == (2, LATER, "live")
    assert [client.get("/known").status_code for _ in range(3)] == [302, 302, 410]
    assert state(client) == (410, "used up")
    assert change(api, "known", {"max_hits": 3}).json()["state"] == "live"
    assert client.get("/known").status_code == 302
    assert change(api, "known", {"max_hits": None}).json()["max_hits"] is None
    ShortUrl.objects.update(expires_at=CLOCK)
    assert state(client) == (410, "expired")
    change(api, "known", {"expires_at": LATER})
    assert state(client) == (302, "live")
    changed = change(api, "known", {"expires_at": None}).json()
    assert (changed["expires_at"], changed["target_url"], changed["hits"]) == (None, TARGET, 3)


def test_an_expiry_with_any_offset_is_stored_in_utc(client: Client, api: Client) -> None:
    """PostgreSQL itself would refuse an offset of 16 hours or more."""
    body = {"target_url": TARGET, "expires_at": "2099-01-02T00:00:00+23:59"}
    assert create(api, body).json()["expires_at"] == "2099-01-01T00:01:00Z"
    client.force_login(user())
    assert client.post("/", {**body, "expires": "at"}).status_code == 303  # by the form
    assert ShortUrl.objects.values("expires_at").distinct().count() == 1  # of both links


def test_a_limit_below_the_hits_counted_is_refused(client: Client, api: Client) -> None:
    link = create_link(hits=7)
    response = change(api, "known", {"max_hits": 6})
    assert (response.status_code, errors(response)) == (422, {"max_hits": "too_low"})
    assert "The limit 6 is below the hits that were counted" in response.json()["detail"]
    link.refresh_from_db()
    assert (link.hits, link.max_hits) == (7, None)
    assert change(api, "known", {"max_hits": 7}).json()["hits"] == 7
    assert state(client) == (410, "used up")


def test_a_limit_that_is_refused_leaves_the_callers_transaction_usable() -> None:
    create_link(hits=6)
    with transaction.atomic():
        with pytest.raises(LimitTooLow):
            operations.change(ShortUrl.objects.all(), max_hits=5)
        assert operations.change(ShortUrl.objects.all(), max_hits=6)
    ShortUrl.objects.update(hits=0)
    with pytest.raises(IntegrityError, match="max_hits_ck"):  # another constraint
        operations.change(ShortUrl.objects.all(), max_hits=0)


def test_the_form_sets_limit_and_expiry_and_the_page_shows_them(client: Client) -> None:
    client.force_login(user())
    fields = {
        "target_url": TARGET,
        "key": "two",
        "expires": "at",
        "expires_at": LATER.removesuffix("Z"),
    }
    assert client.post("/", {**fields, "max_hits": "2"}).status_code == 303
    link = ShortUrl.objects.get()
    assert (link.max_hits, link.expires_at) == (2, datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC))
    page = client.get("/two/stats").text
    assert "of 2" in page
    assert "31 Dec 2099, 23:59 UTC" in page
    ShortUrl.objects.update(hits=2)
    assert "used up" in client.get("/two/stats").text
    ShortUrl.objects.update(expires_at=CLOCK)
    assert "Expired" in client.get("/two/stats").text


def test_an_expired_link_can_be_edited_and_stays_expired(client: Client) -> None:
    owner = user()
    client.force_login(owner)
    create_link(owner=owner, expires_at=CLOCK)
    before = ShortUrl.objects.get()
    form = form_values(client.get("/links/known")) | {"target_url": OTHER}
    assert client.post("/links/known", form).status_code == 303
    after = ShortUrl.objects.get()
    assert (after.target_url, after.expires_at) == (OTHER, before.expires_at)


def test_the_admin_refuses_a_limit_that_is_too_low_and_an_expiry_in_the_past(
    admin_client: Client,
) -> None:
    link = create_link(hits=3)
    path = f"/admin/shorturl/shorturl/{link.pk}/change/"
    for values, message in [
        ({"max_hits": "2"}, "is below the hits that were counted"),
        ({"expires_at": "2020-01-01T00:00:00"}, "is in the past"),
    ]:
        assert message in admin_client.post(path, {"target_url": TARGET, **values}).text
    used_up = admin_client.post(path, {"target_url": TARGET, "max_hits": "3"})
    assert used_up.status_code == 302
    assert "used up" in admin_client.get("/admin/shorturl/shorturl/").text


@pytest.mark.parametrize("in_the_admin", [False, True])
def test_a_form_keeps_concurrent_changes_of_other_fields(
    client: Client, api: Client, in_the_admin: bool
) -> None:
    owner = user("view_shorturl", "change_shorturl", staff=True)
    client.force_login(owner)
    link = create_link(max_hits=5, expires_at=LATER, owner=owner)
    path = f"/admin/shorturl/shorturl/{link.pk}/change/" if in_the_admin else "/links/known"
    form = form_values(client.get(path))
    changed = {"target_url": OTHER, "max_hits": 9, "expires_at": "2098-01-01T00:00:00Z"}
    assert change(api, "known", changed | {"title": "New", "tags": ["new"]}).status_code == 200
    assert client.post(path, form).status_code in (302, 303)  # it changes nothing
    # The form keeps the initial values also when it comes back with an error.
    form = form_values(client.post(path, form | {"max_hits": "0"})) | {"max_hits": ""}
    assert client.post(path, form).status_code in (302, 303)
    link.refresh_from_db()
    assert (link.target_url, link.max_hits, link.owner) == (OTHER, None, owner)
    assert (link.title, link.tags) == ("New", ["new"])
    assert link.expires_at == datetime(2098, 1, 1, tzinfo=UTC)
