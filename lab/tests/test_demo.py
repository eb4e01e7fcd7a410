"""`manage.py demo`."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from lab.management.commands import demo
from shorturl.management import progress
from shorturl.models import HOURLY_DAYS, ShortUrl
from shorturl.tests.callers import create_link, run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def few_links(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Make only the last five links: those of the winter and the terms have visits."""
    monkeypatch.setitem(demo.DEMO, "links", demo.DEMO["links"][-5:])
    settings.LOCAL = True


def test_the_demo_makes_links_with_as_many_visits_as_hits(client: Client) -> None:
    owner = User.objects.create_superuser("boss")
    run("demo")
    hits = dict(ShortUrl.objects.filter(owner=owner).values_list("key", "hits"))
    assert hits["demo-draft"] == hits["demo-poster"] == 0
    assert hits["demo-winter"] > hits["demo-terms"] > 365  # one a day
    page = client.get("/demo-terms/stats?from=2000-01-01&by=month")
    statistics = page.context["statistics"]
    assert statistics.people + statistics.bots == statistics.hits == hits["demo-terms"]


def test_visits_follow_their_course_through_the_year() -> None:
    few_and_many = [("rising", 10, 350), ("fading", 350, 10), ("once", 10, 241), ("once", 350, 241)]
    for course, few, many in [*few_and_many, ("new", 300, 330)]:  # days of the year
        assert 3 * demo.COURSES[course](few) < demo.COURSES[course](many) <= 1.06
    visits, now = demo.draw_visits(Random(1), 90, demo.COURSES["rising"]), timezone.now()
    assert max(visits) <= now
    summer = now - timedelta(demo.DAYS / 2)
    assert sum(len(kinds) * (1 if start > summer else -2) for start, kinds in visits.items()) > 0
    old = [start for start in visits if now - start > timedelta(HOURLY_DAYS + 1)]
    assert {start.hour for start in old} == {0}
    bots = [visit.is_bot for kinds in visits.values() for visit in kinds]
    assert 0.02 < sum(bots) / len(bots) < 0.4


def test_a_second_demo_changes_nothing_and_other_links_are_kept() -> None:
    mine = create_link("demo-card")  # this key is one of the five
    assert run("demo").output == "There are 4 demo links: see /demo-winter/stats.\n"
    links = [*ShortUrl.objects.order_by("key").values()]
    run("demo")
    assert [*ShortUrl.objects.order_by("key").values()] == links
    assert ShortUrl.objects.get(key="demo-card") == mine


def test_the_demo_says_how_far_it_is_and_ends_with_a_sentence_at_ctrl_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0)
    make_link = demo.make_link

    def interrupt(key: str, **columns: Any) -> None:
        if key == "demo-card":
            raise KeyboardInterrupt
        make_link(key, **columns)

    with monkeypatch.context() as patch:
        patch.setattr(demo, "make_link", interrupt)
        with pytest.raises(
            CommandError, match=r"^Interrupted: .* \d of 5 demo links\. Run"
        ) as ended:
            run("demo")
    assert ended.value.returncode == 130
    output, errors = run("demo")
    assert errors.splitlines()[-1] == "5 of 5 links so far."
    assert output.startswith("There are 5 demo links")


def test_the_demo_is_refused_in_production(settings: Settings) -> None:
    settings.LOCAL = False
    with pytest.raises(CommandError, match="Only a local run gets demo links"):
        run("demo")
    assert not ShortUrl.objects.exists()
