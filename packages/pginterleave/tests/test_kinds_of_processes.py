"""Kinds of processes: a request, a command, callbacks of on_commit, an async view."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, override_settings
from django.test import Client as DjangoClient
from django.urls import path

from pginterleave import InterleaveError, Outcome
from pginterleave.django_test import Client
from pginterleave.pytest_plugin import Interleave

from . import counter
from .counter import Counter, expect_hits, explore_all, replay, setup, sql

pytestmark = pytest.mark.usefixtures("counter_table")


def count(request: HttpRequest) -> HttpResponse:
    row = Counter.objects.select_for_update().get(key=request.POST["key"])
    row.hits += 1
    row.save()
    return HttpResponse(row.hits)


def create(request: HttpRequest) -> HttpResponse:
    sql("INSERT INTO interleave_counter VALUES (7, 'seven', 0)")
    sql("SELECT 'in the middle of a request'")
    return HttpResponse(status=201)


async def count_async(*_: object) -> HttpResponse:
    row = await Counter.objects.aget(key="a")
    row.hits += 1
    await row.asave()
    return HttpResponse(row.hits)


def middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    def handle(request: HttpRequest) -> HttpResponse:
        sql("SELECT 'before the view'")
        return get_response(request)

    return handle


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer without a template, which the project may not have."""
    return HttpResponse(status=500)


urlpatterns = [path("count/", count), path("create/", create), path("async/", count_async)]


@pytest.fixture(autouse=True)
def site() -> Iterator[None]:
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[f"{__name__}.middleware"]):
        yield


@pytest.fixture
def atomic_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


def post(where: str, client: type[DjangoClient] = Client) -> int:
    return client().post(where, {"key": "a"}).status_code


def test_two_people_post_the_same_form(interleave: Interleave, atomic_requests: None) -> None:
    process = partial(post, "/count/")
    found = interleave(process, setup=setup, invariant=expect_hits(2))
    drawn = replay(found.orders[0], process, process)
    assert [step.statement().split()[0] for step in drawn.timeline] == [
        *("SELECT", "SELECT", "UPDATE", "COMMIT") * 2
    ]
    assert drawn.timeline[0].rows == (("before the view",),)
    assert [outcome.returned for outcome in drawn.outcomes] == [200, 200]


@pytest.mark.parametrize(("client", "failed"), [(Client, {1}), (DjangoClient, {1, 2})])
def test_an_exception_reaches_the_client_of_its_request(
    client: type[DjangoClient], failed: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    """Django's client also raises in process 1 an exception from the view of process 2."""
    seen: set[int] = set()

    def see(outcomes: list[Outcome]) -> None:
        seen.add(sum(outcome.raised is not None for outcome in outcomes))

    process = partial(post, "/create/", client)
    with caplog.at_level(logging.CRITICAL, "django.request"):
        assert explore_all(process, process, invariant=see).complete
    assert seen == failed


def test_callbacks_run_after_the_commit_and_in_order(interleave: Interleave) -> None:
    def process() -> None:
        with transaction.atomic():
            for text in ("first", "second"):
                transaction.on_commit(partial(sql, f"SELECT '{text}'"))
            sql("SELECT 'in the transaction'")

    found = interleave(process, invariant=counter.anything)
    timeline = replay(found.orders[-1], process, process).timeline
    steps = [step for step in timeline if step.process == 1]
    shown = [step.rows[0][0] if step.rows else step.kind for step in steps]
    assert shown == ["in the transaction", "COMMIT", "first", "second"]
    assert found.schedules == 70


class Command(BaseCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        counter.naive()


@async_to_sync
async def in_parallel() -> None:
    await asyncio.gather(count_async(), sync_to_async(sql)("SELECT 1"))


@pytest.mark.parametrize(
    ("process", "counts"),
    [
        pytest.param(partial(call_command, Command()), (12, 14), id="a management command"),
        pytest.param(async_to_sync(count_async), (12, 14), id="an async view"),
        pytest.param(in_parallel, None, id="gather"),
        pytest.param(
            lambda: async_to_sync(AsyncClient().get)("/async/"), None, id="an async request"
        ),
    ],
)
def test_a_command_or_async_code_is_explored_like_a_function(
    process: Callable[[], object], counts: tuple[int, int] | None
) -> None:
    """Async code sends its statements one after the other."""
    found = explore_all(process, process, invariant=expect_hits(2), reduce=True)
    assert found.complete
    assert 0 < found.violating < found.schedules
    assert counts in (None, (found.violating, found.schedules))


def test_a_generator_or_coroutine_that_is_not_run_is_refused() -> None:
    def counts_when_run() -> Iterator[None]:
        counter.naive()
        yield

    with pytest.raises(InterleaveError, match="a generator was called and not run"):
        explore_all(counts_when_run, counter.naive)
    with pytest.raises(InterleaveError, match="an async function was called and not run"):
        explore_all(count_async, counter.naive)


def test_a_process_may_freeze_the_clock_of_python(interleave: Interleave) -> None:
    """freezegun, for one, replaces time.monotonic."""

    def count_in_another_time() -> None:
        with mock.patch.object(time, "monotonic", partial(float, "-1e9")):
            counter.update_returning()
            counter.update_returning()

    counter.setup()
    interleave(count_in_another_time)
