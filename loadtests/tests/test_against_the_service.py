"""A ledger filled over HTTP and held against a real database, in which things are broken."""

import socket
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError

import pytest
from django.db import connections
from django.db.models import F
from pytest_django.live_server_helper import LiveServer

from lab.load import views
from lab.models import KeySpace
from loadtests.harness import lab_api as labs
from loadtests.harness import options
from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.ledger import Ledger
from loadtests.harness.verdict import Verdict, judge
from shorturl import creating, resolving
from shorturl.models import ShortUrl


@pytest.fixture(autouse=True)
def no_connection_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the live server's threads keep no connection to the test database."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to who asked."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing."""


def follow(url: str) -> str:
    """Return the number of hits that a redirect claims to have made."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
    with pytest.raises(HTTPError) as caught:
        opener.open(url, timeout=30)
    with caught.value as redirect:
        assert redirect.code == 302
        return str(redirect.headers["X-Hits"])


class Run:
    """What a load run does, on a small scale and in one thread."""

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
        hits = follow(f"{self.host}/lab/resolve/update_returning/{key}")
        self.ledger.sent += 1
        self.ledger.redirected(key, hits=hits, request=f"GET {key}")

    def judged(self) -> Verdict:
        links = self.lab.links(self.space)
        return judge(
            self.ledger,
            links,
            script="lost_update",
            strategy="update_returning",
            operation="resolving",
            table="right",
        )


@pytest.fixture
def run(live_server: LiveServer) -> Iterator[Run]:
    """A run with two links, the first of which was followed three times and the second twice."""
    run = Run(live_server.url)
    for name, hits in (("one", 3), ("two", 2)):
        key = run.create(name)
        for _ in range(hits):
            run.follow(key)
    yield run
    run.lab.close_space(run.space)
    assert not ShortUrl.objects.exists()
    assert not KeySpace.objects.exists()


def broken(verdict: Verdict) -> dict[str, int]:
    names = ("lost_hits", "doubled", "stolen", "missing", "undone", "failed")
    return {name: getattr(verdict, name) for name in names if getattr(verdict, name)}


def test_nothing_is_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = run.judged()
    assert (broken(verdict), verdict.exit) == ({}, 0)
    assert (verdict.acknowledged, verdict.of) == (7, 7)
    monkeypatch.setattr(views, "PAGE", 1)  # a page for each link
    assert broken(run.judged()) == {}


def drop_a_hit(one: ShortUrl, two: ShortUrl) -> None:
    ShortUrl.objects.filter(pk=one.pk).update(hits=F("hits") - 1)


def count_a_hit_twice(one: ShortUrl, two: ShortUrl) -> None:
    ShortUrl.objects.filter(pk=one.pk).update(hits=F("hits") + 1)


def swap_two_owners(one: ShortUrl, two: ShortUrl) -> None:
    ShortUrl.objects.filter(pk=one.pk).update(target_url=two.target_url)
    ShortUrl.objects.filter(pk=two.pk).update(target_url=one.target_url)


def lose_a_create(one: ShortUrl, two: ShortUrl) -> None:
    ShortUrl.objects.filter(pk=two.pk).erase()


def make_a_link_twice(one: ShortUrl, two: ShortUrl) -> None:
    ShortUrl.objects.create(key="again", target_url=one.target_url)


@pytest.mark.parametrize(
    ("mischief", "found"),
    [
        (drop_a_hit, {"lost_hits": 1}),
        (count_a_hit_twice, {"doubled": 1}),
        (swap_two_owners, {"stolen": 2}),
        (lose_a_create, {"missing": 1, "lost_hits": 2}),
        (make_a_link_twice, {"doubled": 1}),
    ],
)
def test_broken_on_purpose(
    run: Run, mischief: Callable[[ShortUrl, ShortUrl], None], found: dict[str, int]
) -> None:
    one, two = ShortUrl.objects.order_by("id")
    mischief(one, two)
    verdict = run.judged()
    assert (broken(verdict), verdict.exit) == (found, 1)


# --- The lab's API, from outside -----------------------------------------------------------------


def test_the_scripts_offer_the_strategies_of_the_tables() -> None:
    assert tuple(creating.STRATEGIES) == options.CREATING
    assert tuple(resolving.STRATEGIES) == options.RESOLVING


def test_what_the_lab_objects_to_is_said(live_server: LiveServer) -> None:
    lab = Lab(live_server.url)
    with pytest.raises(LabError, match="key_length: 9 is out of range: use 1 to 3 characters"):
        lab.open_space(9)
    with pytest.raises(LabError, match="There is no key space 'lab-aaaaa'"):
        [*lab.links("lab-aaaaa")]


def test_a_lab_that_is_off(live_server: LiveServer) -> None:
    lab = Lab(f"{live_server.url}/elsewhere")  # where nothing is, as with the lab off
    with pytest.raises(LabError, match=r"are off at .*SHORTURL_LAB=on and SHORTURL_LAB_LOAD=on"):
        lab.open_space(1)


@pytest.mark.parametrize(
    "host", ["", "localhost:8000", "ftp://localhost", "http://", "/", "http://[::1", "http://a:b"]
)
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(LabError, match="is no host: write it like http://127"):
        Lab(host)


def test_a_host_where_nobody_answers() -> None:
    with pytest.raises(LabError, match=r"no service answers at http://127\.0\.0\.1:1 .*make run"):
        Lab("http://127.0.0.1:1").open_space(1)


def test_a_host_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labs, "TIMEOUT", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(LabError, match="does not answer as the service does: timed out"):
            Lab(f"http://127.0.0.1:{port}").open_space(1)
