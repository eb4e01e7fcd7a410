"""`manage.py demo`."""

from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db.models import Sum
from django.test import Client
from pytest_django import Settings

from pginterleave import Outcome, explore
from shorturl import operations
from shorturl.management import demo_links
from shorturl.management.commands import demo as command
from shorturl.management.demo_links import DemoLink, once, visits
from shorturl.models import ShortUrl, Visit, VisitCount
from shorturl.strategies.recording_visits import upsert
from shorturl.tests.callers import only_link, run, user

pytestmark = pytest.mark.django_db

FEW = [
    DemoLink("demo-few", "https://example.com/few", 3, once, "Few", "a b"),
    DemoLink("demo-none", "https://example.com/none", 0, once),
]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(command, "LINKS", FEW)
    settings.LOCAL = True


def demo(*arguments: str) -> str:
    return run("demo", *arguments)[0]


def test_creates_links_with_as_many_visits_as_hits_once(client: Client) -> None:
    owner = user()
    assert demo("--owner", owner.username).startswith("2 demo links are made, with ")
    totals = dict(VisitCount.objects.values_list("short_url").annotate(Sum("hits")))
    assert {link.key: link.hits for link in ShortUrl.objects.filter(owner=owner)} == {
        "demo-few": totals["demo-few"],
        "demo-none": 0,
    }
    labels = list(ShortUrl.objects.order_by("key").values_list("title", "tags"))
    assert labels == [("Few", ["a", "b"]), ("", None)]
    page = client.get("/demo-few/stats?from=2000-01-01&by=month")
    assert page.context["statistics"].not_recorded == 0
    assert demo().startswith("0 demo links are made, with 0 visits; 2 existed already.")
    assert VisitCount.objects.aggregate(Sum("hits"))["hits__sum"] == totals["demo-few"]
    theirs = operations.create("https://example.com/", key="spring")
    assert demo("--remove") == "2 demo links are removed.\n"
    assert list(ShortUrl.objects.all()) == [theirs]
    assert not VisitCount.objects.exists()


@pytest.mark.parametrize("superusers", [0, 1, 2])
def test_the_only_superuser_is_the_owner(superusers: int) -> None:
    user(staff=True)
    bosses = [User.objects.create_superuser(f"boss-{number}") for number in range(superusers)]
    demo()
    owners = set(ShortUrl.objects.values_list("owner", flat=True))
    assert owners == {bosses[0].pk if superusers == 1 else None}


@pytest.mark.django_db(transaction=True)
def test_a_concurrent_visit_is_removed_with_its_link() -> None:
    """Otherwise the next demo link of the same key would show it or could not be created."""

    def follow() -> None:
        with suppress(ShortUrl.DoesNotExist):
            upsert.record("demo-few", Visit())

    def nothing_is_left(outcomes: list[Outcome]) -> None:
        assert [outcome.raised for outcome in outcomes] == [None] * 2
        assert not ShortUrl.objects.exists()
        assert not VisitCount.objects.exists()

    explore(
        [partial(demo, "--remove"), follow],
        setup=partial(only_link, "demo-few", target_url=FEW[0].target_url),
        invariant=nothing_is_left,
    ).assert_safe()


def test_leaves_a_key_with_another_target() -> None:
    operations.create("https://example.com/mine", key="demo-few")
    assert demo().startswith("1 demo links are made, with 0 visits")
    assert demo("--remove") == "1 demo links are removed.\n"
    assert ShortUrl.objects.get().target_url == "https://example.com/mine"


def test_is_refused_in_production_and_for_an_unknown_owner(settings: Settings) -> None:
    with pytest.raises(CommandError, match="There is no user 'nobody"):
        demo("--owner", "nobody\0")
    settings.LOCAL = False
    for arguments in ([], ["--remove"]):
        with pytest.raises(CommandError, match="This is a production"):
            demo(*arguments)
    assert not ShortUrl.objects.exists()


def test_the_same_seed_draws_the_same_visits() -> None:
    until = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)

    drawn = [visits(FEW[0], seed, until) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert max(row["starts_at"] for row in drawn[0]) <= until
    keys = [link.key for link in demo_links.LINKS]
    assert len(set(keys)) == len(keys)
