"""The visits on the page of a short URL: with and without JavaScript, narrow, dark, by keyboard."""

import re
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from shorturl import operations
from shorturl.management.demo_links import DemoLink, steady, visits
from shorturl.models import ShortUrl, VisitCount
from shorturl.tests.browser.conftest import NewPage
from shorturl.tests.browser.test_appearance import look_at


@pytest.fixture(autouse=True)
def short_url(service: None) -> ShortUrl:
    short_url = operations.create("https://example.com/", key="spring")
    rows = visits(DemoLink("spring", "", 4, steady), 1, timezone.now())
    rows[0]["referrer"] = f"{'long' * 15}.example"
    ShortUrl.objects.update(hits=sum(row["hits"] for row in rows))
    VisitCount.objects.bulk_create(VisitCount(short_url_id=row.pop("key"), **row) for row in rows)
    return short_url


@pytest.mark.parametrize("java_script", [True, False])
def test_chooses_a_range_by_keyboard(new_page: NewPage, java_script: bool) -> None:
    page = new_page(java_script_enabled=java_script)
    page.goto("/spring/stats")
    expect(page.get_by_role("img", name="Visits by day")).to_be_visible()
    today = timezone.now().date()
    page.get_by_label("From").fill(str(today - timedelta(days=400)))
    page.get_by_label("By", exact=True).select_option("month")
    page.get_by_role("button", name="Show").press("Enter")
    expect(page.get_by_label("From")).to_have_value(str(today - timedelta(days=400)))
    expect(page.get_by_role("img", name="Visits by month")).to_be_visible()
    bars = page.locator("rect.people")
    assert bars.count() in (12, 13)
    page.get_by_text("The chart as a table").press("Enter")
    expect(page.get_by_role("columnheader", name="Month (UTC)")).to_be_visible()
    page.get_by_role("link", name="2 days").press("Enter")
    expect(page.get_by_role("img", name="Visits by hour")).to_be_visible()
    page.get_by_label("To").fill("2000-01-01")
    page.get_by_role("button", name="Show").press("Enter")
    wrong = re.compile("begin with the earlier day")
    expect(page.get_by_label("From")).to_have_accessible_description(wrong)


def test_the_words_of_the_chart_do_not_touch(new_page: NewPage) -> None:
    page = new_page(reduced_motion="reduce")
    look_at(page, ["/spring/stats"])
    today = timezone.now().date()
    for days, by in [(2, "hour"), (12, "hour"), (30, "day"), (90, "day"), (360, "day")]:
        query = f"?from={today - timedelta(days=days - 1)}&by={by}"
        page.goto(f"/spring/stats{query}")
        for width in (360, 1200):
            page.set_viewport_size({"width": width, "height": 640})
            words = page.locator(".chart > svg > text:not(.y)")
            edges: list[list[float]] = words.evaluate_all(
                "words => words.map((word) => word.getBoundingClientRect())"
                ".filter((box) => box.width).map((box) => [box.left, box.right])"
            )
            assert len(edges) > 1
            for (_, right), (left, _) in pairwise(edges):
                assert right < left, (query, width)
