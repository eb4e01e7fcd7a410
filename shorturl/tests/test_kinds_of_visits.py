"""How many kinds of a link's visits are told apart."""

import pytest
from django.test import Client

from shorturl import kinds_of_visits, operations, views
from shorturl.kinds_of_visits import KindsOfVisits
from shorturl.models import VisitCount
from shorturl.visits import Visit

pytestmark = pytest.mark.django_db

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds_of_visits, "MOST_OF_A_LINK", 3)
    monkeypatch.setattr(views, "kinds", KindsOfVisits())


def test_one_that_is_new_and_too_many_is_other(client: Client) -> None:
    operations.create("https://example.com/", key="spring")
    for agent, number in ((FIREFOX, 1), (FIREFOX, 2), ("curl/8", 1), (FIREFOX, 1), ("", 2)):
        headers = {"Referer": f"https://{number}.example/", "User-Agent": agent}
        client.get("/spring", headers=headers)
    for number in range(9):
        client.get("/spring", headers={"Referer": f"https://more{number}.example/"})
    shown = VisitCount.objects.values_list("referrer", "browser", "is_bot", "hits")
    assert set(shown) == {
        ("1.example", "Firefox", False, 2),
        ("2.example", "Firefox", False, 1),
        ("1.example", "curl", True, 1),
        ("other", "Other", True, 10),
    }


def test_each_link_and_each_hour_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, new = KindsOfVisits(), Visit("new")
    for host in ("a", "b", "c"):
        seen.add("one", Visit(host))
    assert seen.bounded("one", new) == Visit("other", "Other", "Other", "Other", is_bot=True)
    assert seen.bounded("one", Visit("a")) == Visit("a")
    assert seen.bounded("two", new) == new
    monkeypatch.setattr("shorturl.kinds_of_visits.time.time", lambda: seen.hour * 3600 + 3600)
    assert seen.bounded("one", new) == new


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds_of_visits, "MOST", 3)
    seen = KindsOfVisits()
    for number in range(10):
        for host in ("a", "b"):
            seen.add(f"{number}", Visit(host))
    assert list(seen.of_links) == ["9"]
    assert seen.number == 2
