"""How many kinds of a link's visits are told apart."""

import pytest
from django.test import Client

from shorturl import operations
from shorturl.models import VisitCount
from shorturl.pages import redirect
from shorturl.visits import cardinality
from shorturl.visits.cardinality import CardinalityLimit
from shorturl.visits.classification import Visit

pytestmark = pytest.mark.django_db

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cardinality, "MOST_OF_A_LINK", 3)
    monkeypatch.setattr(redirect, "kinds", CardinalityLimit())


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
    seen, new = CardinalityLimit(), Visit("new")
    for host in ("a", "b", "c"):
        seen.add("one", Visit(host))
    assert seen.bounded("one", new) == Visit("other", "Other", "Other", "Other", is_bot=True)
    assert seen.bounded("one", Visit("a")) == Visit("a")
    assert seen.bounded("two", new) == new
    monkeypatch.setattr("shorturl.visits.cardinality.time.time", lambda: seen.hour * 3600 + 3600)
    assert seen.bounded("one", new) == new


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that come after that do not make room for more kinds of those before."""
    monkeypatch.setattr(cardinality, "MOST", 4)
    limit = CardinalityLimit()
    recorded = set()
    for again in range(2):
        for number in range(10):
            for host in (f"a{again}", f"b{again}"):
                visit = limit.bounded(f"{number}", Visit(host))
                limit.add(f"{number}", visit)
                recorded.add((number, visit))
    assert len(limit.seen) == 4
    assert len(recorded) == 4 + 10  # and one of OTHER for each link
