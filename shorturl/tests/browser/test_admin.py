"""An operator with a browser: the edit of a target loses no hit that arrives meanwhile."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.signals import pre_save
from playwright.sync_api import Page, expect

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import NewPage

PASSWORD = "correct horse battery staple"


def hit() -> None:
    """Follow the short URL in a process of its own, as far as the database can tell."""
    try:
        operations.resolve("spring")
    finally:
        connection.close()


@pytest.fixture
def hit_at_the_last_moment() -> Iterator[None]:
    """Have a hit arrive after the admin has read the row, and before it writes."""

    def receiver(**kwargs: Any) -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(hit).result(timeout=20)

    pre_save.connect(receiver, sender=ShortUrl)
    yield
    pre_save.disconnect(receiver, sender=ShortUrl)


def test_edit_of_a_target_while_hits_arrive(
    page: Page, new_page: NewPage, target_url: str, hit_at_the_last_moment: None
) -> None:
    """The form is opened; two hits; the form is sent, its row is read; a hit; the row is written.

    Four with the one before: had the row been written as it was read, the last would be lost.
    """
    User.objects.create_superuser("operator", password=PASSWORD)
    short_url = operations.create("https://example.com/old", key="spring")
    operations.resolve("spring")

    page.goto("/admin/")
    page.get_by_label("Username").fill("operator")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Short URLs", exact=True).click()
    page.get_by_role("link", name="spring").click()
    expect(page.locator(".field-hits .readonly")).to_have_text("1")
    page.get_by_label("Target URL").fill(target_url)

    visitor = new_page()
    for _ in range(2):
        visitor.request.get("/spring", max_redirects=0)

    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    short_url.refresh_from_db()
    assert (short_url.hits, short_url.target_url) == (4, target_url)
    visitor.goto("/spring")
    assert visitor.url == target_url
    visitor.goto("/spring/stats")
    expect(visitor.locator("dt:text-is('Hits') + dd")).to_have_text("5")
