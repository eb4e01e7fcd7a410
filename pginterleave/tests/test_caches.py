"""Caches that send SQL only the first time: Django's are put back, and others are named."""

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.test import override_settings

from pginterleave import NotDeterministic, Outcome
from pginterleave.pytest_plugin import Interleave

from .counter import Counter, anything, explored, sql

pytestmark = pytest.mark.usefixtures("counter_table")


def content_type() -> int:
    return ContentType.objects.get_for_model(ContentType).pk


def test_a_cache_that_is_empty_at_first_is_named() -> None:
    """As without the fixture: it sends its query in the first schedule only."""
    ContentType.objects.clear_cache()
    with pytest.raises(NotDeterministic) as raised:
        explored(content_type, lambda: sql("SELECT 1"))
    assert "ContentType.objects.clear_cache()" in raised.value.__notes__[0]


@pytest.mark.parametrize("cleared", [True, False])
def test_the_cache_of_content_types_is_the_same_in_any_order_of_tests(
    interleave: Interleave, cleared: bool
) -> None:
    if cleared:
        ContentType.objects.clear_cache()
    else:
        content_type()
    found = interleave(content_type, lambda: sql("SELECT 1"), invariant=anything)
    assert found.orders == ("2",)


def test_a_cache_does_not_point_to_a_row_that_is_gone(interleave: Interleave) -> None:
    """A process makes the row, which is taken out again before the next schedule."""

    def process() -> int:
        return ContentType.objects.get_for_model(Counter).pk

    def is_there(outcomes: list[Outcome]) -> str:
        known = ContentType.objects.filter(pk=outcomes[0].returned)
        return "" if known.exists() else "the row is gone"

    assert interleave(process, invariant=is_there).schedules > 1


@override_settings(SITE_ID=7)
def test_the_current_site_is_known(interleave: Interleave) -> None:
    if not apps.is_installed("django.contrib.sites"):
        pytest.skip("the sites framework is not installed here")
    from django.contrib.sites.models import Site

    Site.objects.create(pk=7, domain="sho.rt", name="sho.rt")
    Site.objects.clear_cache()

    def process() -> str:
        sql("SELECT 1")
        return Site.objects.get_current().domain

    assert interleave(process, invariant=anything).schedules == 2


def test_any_other_cache_is_named_by_what_it_reads_and_filled_by_the_fixture(
    interleave: Interleave,
) -> None:
    kept: list[object] = []

    def cached() -> None:
        if not kept:
            kept.append(sql("SELECT hits FROM interleave_counter"))
        sql("SELECT 1")

    with pytest.raises(NotDeterministic) as raised:
        explored(cached, cached)
    assert "keeps what was read from interleave_counter" in raised.value.__notes__[0]
    kept.clear()
    assert interleave(cached, invariant=anything).schedules == 2
