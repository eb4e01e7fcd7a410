"""Killed while delivering: two deliverers send events to a receiver, and are killed on purpose.

What it teaches: a strategy that deletes an event before it is sent loses the event when its process
is killed between the two. A strategy that selects an event and claims it afterwards sends it twice
without any crash. A right strategy loses no event, keeps the order of each link, and repeats only
events that were under way when a process was killed.

The receiver is an HTTP server on the loopback, which records each event that it has acknowledged.
Clients create short URLs that can be followed once, and follow them. Each has to send link.created
and then link.used_up. In the middle of every 50th request both deliverers are killed (kill -9), and
others are started in their place.

How to run it; it starts a service and a PostgreSQL:

    .venv/bin/python -m loadtests.killed_while_delivering              # every strategy
    .venv/bin/python -m loadtests.killed_while_delivering update_skip_locked

An event claimed by a killed process is delivered after the claim ends, after a minute. The exit
code is 0 when every strategy behaved as the table says, 1 when one did not, 2 when nothing was
measured.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tabulate import tabulate

from loadtests.faults.experiment import NotRecovered, reported
from loadtests.faults.traffic import HttpClient
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.result import ExitCode
from loadtests.harness.serving import NO_REFUSALS, manage, serving

WRONG = ("naive", "watermark", "delete_returning")
RIGHT = ("select_for_update", "skip_locked", "update_skip_locked", "advisory_lock")
LINKS, CLIENTS, DELIVERERS = 150, 4, 2
KILLED_AT = 50  # requests of the receiver from one kill to the next
KILLS = 2 * LINKS // KILLED_AT - 1  # no kill in the last requests
QUIET = 10  # seconds without a request and a waiting event, after which the rest is lost
PATIENCE = 150  # seconds until all is delivered: a claim of a minute may expire twice
WAITING = "SELECT count(*) FROM shorturl_linkevent"
Told = tuple[str, str]  # the key and the type of an event


class Deliveries(NamedTuple):
    """The events that the receiver got, compared with those that were due."""

    strategy: str
    due: int
    lost: int
    repeated: int
    disordered: int
    kills: int

    @property
    def is_right(self) -> bool:
        """Whether nothing is lost or out of order, and each kill repeats one event at most."""
        return not self.lost and not self.disordered and self.repeated <= self.kills


class Receiver(ThreadingHTTPServer):
    """Handles requests with Hook. Some requests end only after their sender was killed."""

    daemon_threads = True

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.requests = self.kills = 0
        self.last = time.monotonic()
        self.in_the_middle, self.killed = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Hook)

    def handle_error(self, *args: object) -> None:
        """Print nothing: a killed sender leaves half a request, or reads no answer."""


class Hook(BaseHTTPRequestHandler):
    """Records the event, and then answers with 204."""

    server: Receiver

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        receiver = self.server
        with receiver.lock:
            receiver.requests += 1
            receiver.last = time.monotonic()
            is_killed = receiver.requests % KILLED_AT == 0 and receiver.kills < KILLS
        if is_killed:
            receiver.killed.clear()
            receiver.in_the_middle.set()
            receiver.killed.wait(PATIENCE)
            return
        receiver.told.append((event["data"]["key"], event["type"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def use_up(url: str, number: int) -> list[Told]:
    """Create a link and follow it; return the events that are due for the acknowledged requests."""
    link = {"target_url": f"https://example.com/{number}", "max_hits": 1}
    with closing(HttpClient([url])) as client:
        created = client.ask("POST", "/api/links", link)
        if created.kind != "201":
            raise NotRecovered(f"a create is answered with {created.kind}")
        key = json.loads(created.body)["key"]
        followed = client.ask("GET", f"/{key}")
    used_up = [(key, "link.used_up")] if followed.kind == "302" else []
    return [(key, "link.created"), *used_up]


@contextmanager
def listening() -> Iterator[Receiver]:
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever).start()
        try:
            yield receiver
        finally:
            receiver.shutdown()


def measure(strategy: str) -> Deliveries:
    """Return the deliveries with the strategy."""
    with own_postgres() as postgres, listening() as receiver, ExitStack() as stack:
        service = stack.enter_context(serving(DATABASE_URL=postgres.url, **NO_REFUSALS))
        hook = f"http://127.0.0.1:{receiver.server_port}/"
        with manage("webhook", postgres.url, "add", hook) as process:
            if process.wait(PATIENCE):
                raise NotRecovered("the receiver cannot be added")
        cursor = stack.enter_context(closing(postgres.connect())).cursor()
        pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        asked = [pool.submit(use_up, service.url, number) for number in range(LINKS)]
        until = time.monotonic() + PATIENCE
        while True:
            with ExitStack() as deliverers:
                for _ in range(DELIVERERS):
                    deliverers.enter_context(manage("deliver_by", postgres.url, strategy))
                while not receiver.in_the_middle.wait(1):
                    cursor.execute(WAITING)
                    is_quiet = time.monotonic() > receiver.last + QUIET
                    if is_quiet and cursor.fetchone() == (0,):
                        due = [told for each in asked for told in each.result()]
                        return reconciled(strategy, due, receiver)
                    if time.monotonic() > until:
                        raise NotRecovered(f"{strategy} has not delivered all in {PATIENCE} s")
                    cursor.connection.commit()
            receiver.kills += 1
            receiver.in_the_middle.clear()
            receiver.killed.set()


def reconciled(strategy: str, due: list[Told], receiver: Receiver) -> Deliveries:
    """Compare the events that the receiver has recorded with those that were due."""
    first = {told: number for number, told in reversed([*enumerate(receiver.told)])}
    lost = [told for told in due if told not in first]
    disordered = [
        key
        for key, kind in due
        if kind == "link.used_up"
        and first.get((key, kind), len(first)) < first.get((key, "link.created"), 0)
    ]
    repeated = len(receiver.told) - len(first)
    return Deliveries(
        strategy, len(due), len(lost), repeated, len(disordered), DELIVERERS * receiver.kills
    )


def judged(strategies: list[str]) -> ExitCode:
    """Measure each strategy, print a table, and return whether all behaved as expected."""
    found = [measure(strategy) for strategy in strategies]
    titles = ["To tell receivers of events", "", "events lost"]
    titles += ["repeated", "out of order", "kills", "violated"]
    rows = [
        (
            f"`{each.strategy}`",
            "⛔ wrong" if each.strategy in WRONG else "✅ right",
            f"{each.lost:,} of {each.due:,}",
            *(each.repeated, each.disordered, each.kills),
            f"{not each.is_right:d} of 1",
        )
        for each in found
    ]
    print(tabulate(rows, titles, "pipe", colalign=["left", "left", *["right"] * 5]))
    as_said = all(each.is_right is (each.strategy in RIGHT) for each in found)
    return ExitCode.AS_EXPECTED if as_said else ExitCode.UNEXPECTED


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    every = [*WRONG, *RIGHT]
    parser.add_argument("strategy", nargs="*", choices=[*every, []], help="by default all")
    chosen = parser.parse_args().strategy or every
    return reported("killed_while_delivering", lambda: judged(chosen))


if __name__ == "__main__":
    sys.exit(main())
