"""A ledger filled over HTTP and reconciled with a real database, also after tampering."""

import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest
from django.db import connections
from django.db.models import F
from pytest_django.live_server_helper import LiveServer

from lab import races
from lab.load import views
from lab.models import KeySpace
from loadtests import killed_while_delivering
from loadtests.every_strategy import PLAN
from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.ledger import Ledger
from loadtests.harness.measured_operations import OPERATIONS, WRONG_RESOLVING
from loadtests.harness.reconciliation import reconcile
from loadtests.harness.result import LoadResult
from loadtests.tests.test_reconciliation import violations
from shorturl.models import ShortUrl
from shorturl.strategies.table import STRATEGIES, Verdict


@pytest.fixture(autouse=True)
def no_connection_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the threads of the live server close their connections to the test database."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing."""


class SmallRun:
    """A small load run in one thread."""

    def __init__(self, host: str) -> None:
        self.lab, self.host, self.ledger = Lab(host), host, Ledger()
        self.space = self.lab.open_space(1)["space"]

    def create(self, name: str) -> str:
        target_url = f"https://{self.space}.invalid/{name}"
        key = self.lab.create(self.space, "on_conflict", target_url)
        self.ledger.sent += 1
        self.ledger.created(key, target_url)
        return key

    def follow(self, key: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
        with pytest.raises(HTTPError) as caught:
            opener.open(f"{self.host}/lab/resolve/update_returning/{key}", timeout=30)
        with caught.value as redirect:
            assert redirect.code == 302
            self.ledger.sent += 1
            hits = str(redirect.headers["X-Hits"])
            self.ledger.redirected(key, hits=hits, request=f"GET {key}")

    def reconciled(self) -> LoadResult:
        return reconcile(
            self.ledger,
            self.lab.links(self.space),
            script="lost_update",
            strategy="update_returning",
            operation="resolving",
            verdict="right",
        )


@pytest.fixture
def run(live_server: LiveServer) -> Iterator[SmallRun]:
    """A run with two links, the first followed three times and the second twice."""
    run = SmallRun(live_server.url)
    for name, hits in (("one", 3), ("two", 2)):
        key = run.create(name)
        for _ in range(hits):
            run.follow(key)
    yield run
    run.lab.close_space(run.space)
    assert not ShortUrl.objects.exists()
    assert not KeySpace.objects.exists()


def test_the_invariant_holds(run: SmallRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PAGE", 1)  # a page for each link
    result = run.reconciled()
    assert (violations(result), result.exit_code) == ({}, 0)
    assert (result.acknowledged, result.of) == (7, 7)


def test_tampering_is_found(run: SmallRun) -> None:
    one, two = ShortUrl.objects.order_by("id")
    ShortUrl.objects.filter(pk=one.pk).update(hits=F("hits") - 1, target_url=two.target_url)
    ShortUrl.objects.filter(pk=two.pk).update(hits=F("hits") + 1)
    ShortUrl.objects.create(key="again", target_url=one.target_url)
    result = run.reconciled()
    assert violations(result) == {"lost_hits": 1, "stolen": 1, "doubled": 2}
    assert result.exit_code == 1


# --- The lab's API, from outside -----------------------------------------------------------------


def test_the_scripts_have_the_strategies_of_the_tables() -> None:
    offered = {name: one.names.split() for name, one in OPERATIONS.items() if name in STRATEGIES}
    offered["delivering"] = [*killed_while_delivering.WRONG, *killed_while_delivering.RIGHT]
    listed = {name: [*strategies] for name, strategies in STRATEGIES.items()}
    del listed["rolling_up"]  # explored, and not run under load
    assert offered == listed
    for name, measured in OPERATIONS.items():
        assert name not in STRATEGIES or measured.title == races.OPERATIONS[name].title
    wrong = (s.name for s in STRATEGIES["resolving"].values() if s.verdict is Verdict.WRONG)
    assert tuple(wrong) == WRONG_RESOLVING
    assert not {run.script for run in PLAN} & {run.strategy for run in PLAN}  # for `--only`


def test_an_error_of_the_lab_is_the_message(live_server: LiveServer) -> None:
    lab = Lab(live_server.url)
    with pytest.raises(LabError, match="key_length: 9 is out of range: use 1 to 3 characters"):
        lab.open_space(9)
    with pytest.raises(LabError, match="There is no key space 'lab-aaaaa'"):
        [*lab.links("lab-aaaaa")]


def test_endpoints_that_are_off(live_server: LiveServer) -> None:
    with pytest.raises(LabError, match="start the service with SHORTURL_LAB=on and SHORTURL_LAB_L"):
        Lab(f"{live_server.url}/nothing/here").open_space(1)
