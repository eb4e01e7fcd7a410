"""The service with a streaming replica: which requests read it, and when none does."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest

from loadtests.harness.own_postgres import OwnPostgres, Shutdown, own_postgres, own_replica
from loadtests.harness.serving import ROOT, NotServed, serving

pytestmark = pytest.mark.exhaustive

OLD, NEW = "https://old.example/", "https://new.example/"
ONE_WORKER = {"WORKERS": "1", "SHORTURL_LAB": "off"}


class Answered(NamedTuple):
    """An answer with its cookie."""

    status: int
    location: str
    body: str
    cookie: str


class Client:
    """A browser that keeps its cookie, or with `keeps=False` a program that keeps none."""

    def __init__(self, url: str, *, keeps: bool = True) -> None:
        self.address, self.keeps, self.cookie = urlsplit(url).netloc, keeps, ""

    def ask(self, method: str, path: str, content: object = None, token: str = "") -> Answered:
        headers = {"Cookie": self.cookie} if self.cookie else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        body = None if content is None else json.dumps(content)
        if body:
            headers["Content-Type"] = "application/json"
        with closing(HTTPConnection(self.address, timeout=60)) as http:
            http.request(method, path, body, headers)
            answer = http.getresponse()
            cookie = (answer.headers.get("Set-Cookie") or "").partition(";")[0]
            text = answer.read().decode()
        if self.keeps and cookie.startswith("written="):
            self.cookie = cookie
        return Answered(answer.status, answer.headers.get("Location", ""), text, cookie)

    def target(self, key: str) -> str:
        """Return the target of the link by the API, or the status."""
        answer = self.ask("GET", f"/api/links/{key}")
        return json.loads(answer.body)["target_url"] if answer.status == 200 else str(answer.status)


@contextmanager
def both() -> Iterator[tuple[OwnPostgres, OwnPostgres]]:
    with own_postgres() as primary, own_replica(primary) as replica:
        yield primary, replica


def tell(server: OwnPostgres, statement: str) -> None:
    with server.session(autocommit=True) as cursor:
        cursor.execute(statement)


def ask(server: OwnPostgres, query: str) -> str:
    with server.session() as cursor:
        cursor.execute(query)
        return str(cursor.fetchone()[0])


def of(key: str) -> str:
    return f"shorturl_shorturl WHERE key = '{key}'"


def edit(key: str) -> str:
    return f"UPDATE shorturl_shorturl SET target_url = '{NEW}' WHERE key = '{key}'"


def until(condition: Callable[[], bool]) -> None:
    """Repeat the condition, which sends a request, up to a bound."""
    assert any(condition() for _ in range(2000))


def test_which_requests_read_the_replica() -> None:
    with both() as (primary, replica):
        settings = {"DATABASE_URL": primary.url, "DATABASE_REPLICA_URL": replica.url, **ONE_WORKER}
        with serving(**settings, DATABASE_REPLICA_LAG="3600") as service:
            mine, other = Client(service.url), Client(service.url, keeps=False)
            made = mine.ask("POST", "/api/links", {"target_url": OLD})
            key = json.loads(made.body)["key"]
            assert other.target(key) == OLD  # the service stores the position of the primary
            written = ask(primary, "SELECT pg_current_wal_insert_lsn()")
            until(lambda: ask(replica, f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == "True")
            # The replica stands still from here on, and the allowed lag is an hour.
            tell(replica, "SELECT pg_wal_replay_pause()")
            tell(primary, edit(key))
            until(lambda: other.target(key) == OLD)
            assert other.ask("HEAD", f"/{key}").location == OLD
            # A redirect never reads it, and is counted.
            for _ in range(5):
                assert other.ask("GET", f"/{key}").location == NEW
            tell(primary, f"DO $$ BEGIN ASSERT (SELECT hits = 5 FROM {of(key)}); END $$")
            # A client sees its own change, and a link that the replica lacks is found.
            again = json.loads(mine.ask("POST", "/api/links", {"target_url": NEW}).body)["key"]
            assert mine.target(key) == NEW
            assert mine.ask("GET", f"/{again}/stats").status == 200
            assert other.target(again) == NEW
            assert other.target(key) == OLD
            # After it is killed, the primary answers everything.
            replica.stop(Shutdown.IMMEDIATE)
            assert [other.target(key) for _ in range(20)] == [NEW] * 20
            assert other.ask("GET", f"/{key}").location == NEW
            replica.start()
            tell(replica, "SELECT pg_wal_replay_resume()")
            until(lambda: other.target(key) == NEW)


def test_the_primary_answers_for_a_frozen_replica() -> None:
    with both() as (primary, replica):
        settings = {"DATABASE_URL": primary.url, "DATABASE_REPLICA_URL": replica.url, **ONE_WORKER}
        with serving(**settings, DATABASE_CONNECT_TIMEOUT="2", THREADS="2") as service:
            client = Client(service.url, keeps=False)
            key = json.loads(client.ask("POST", "/api/links", {"target_url": OLD}).body)["key"]
            read_there = (
                "SELECT count(*) > 0 FROM pg_stat_activity "
                "WHERE query LIKE 'SELECT%target_url%' AND pid <> pg_backend_pid()"
            )
            until(lambda: client.target(key) == OLD and ask(replica, read_there) == "True")
            frozen = replica.processes()
            try:
                for process in frozen:
                    with suppress(psutil.NoSuchProcess):  # the session of ask() has just ended
                        process.suspend()
                assert [client.target(key) for _ in range(20)] == [OLD] * 20
            finally:
                for process in frozen:
                    with suppress(psutil.NoSuchProcess):
                        process.resume()


def test_a_replica_that_lags_is_not_read() -> None:
    with both() as (primary, replica):
        settings = {"DATABASE_URL": primary.url, "DATABASE_REPLICA_URL": replica.url, **ONE_WORKER}
        with serving(**settings, DATABASE_REPLICA_LAG="1") as service:
            client = Client(service.url, keeps=False)
            key = json.loads(client.ask("POST", "/api/links", {"target_url": OLD}).body)["key"]
            tell(replica, "SELECT pg_wal_replay_pause()")
            tell(primary, edit(key))
            until(lambda: client.target(key) == NEW)


def test_an_export_has_all_earlier_changes() -> None:
    with both() as (primary, replica):
        settings = {"DATABASE_URL": primary.url, "DATABASE_REPLICA_URL": replica.url}
        settings |= {"SHORTURL_LOCAL": "on", "DATABASE_REPLICA_LAG": "2"}

        def manage(*words: str) -> tuple[str, str]:
            ran = subprocess.run(
                [sys.executable, "manage.py", *words],
                cwd=ROOT,
                env={**os.environ, **settings},
                capture_output=True,
                text=True,
            )
            assert ran.returncode == 0, ran.stderr
            return ran.stdout, ran.stderr

        manage("migrate", "--verbosity", "0")
        tell(primary, f"INSERT INTO shorturl_shorturl (key, target_url) VALUES ('one', '{OLD}')")
        links, said = manage("export_links", "-", "--format", "jsonl")
        assert said == "1 links are exported from the replica.\n"
        assert OLD in links
        assert manage("export_links", "-", "--format", "jsonl", "--primary")[0] == links
        tell(replica, "SELECT pg_wal_replay_pause()")
        tell(primary, edit("one"))
        links, said = manage("export_links", "-", "--format", "jsonl")
        assert said == "1 links are exported.\n"
        assert NEW in links


def test_a_replica_of_another_database_is_refused() -> None:
    with own_postgres() as primary, own_postgres() as other:
        settings = {"DATABASE_URL": primary.url, "DATABASE_REPLICA_URL": other.url, **ONE_WORKER}
        with (
            pytest.raises(NotServed, match="Name the same database on a server"),
            serving(**settings),
        ):
            pass
