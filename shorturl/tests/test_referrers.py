"""How many referrers of a link are told apart."""

import pytest
from django.test import Client

from shorturl import operations, referrers, views
from shorturl.models import VisitCount
from shorturl.referrers import Referrers

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referrers, "MOST_OF_A_LINK", 2)
    monkeypatch.setattr(views, "referrers", Referrers())


def test_one_that_is_new_and_too_many_is_other(client: Client) -> None:
    operations.create("https://example.com/", key="spring")
    for number in (1, 2, 3, 1, 4):
        client.get("/spring", headers={"Referer": f"https://{number}.example/"})
    for header in ("", "\x00", "about:blank"):
        client.get("/spring", headers={"Referer": header})
    assert dict(VisitCount.objects.values_list("referrer", "hits")) == {
        "1.example": 2,
        "2.example": 1,
        "other": 4,
        "": 1,
    }


def test_each_link_and_each_hour_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Referrers()
    for host in ("a", "b"):
        seen.add("one", host)
    assert (seen.admits("one", "c"), seen.admits("two", "c")) == (False, True)
    monkeypatch.setattr("shorturl.referrers.time.time", lambda: seen.hour * 3600 + 3600)
    assert seen.admits("one", "c")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referrers, "MOST", 3)
    seen = Referrers()
    for number in range(10):
        for host in ("a", "b"):
            seen.add(f"{number}", host)
    assert list(seen.of_links) == ["9"]
    assert seen.number == 2
