"""Faults of the service: workers that are killed, and clients that keep it busy."""

import http.client
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection
from http.cookiejar import CookieJar
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import psutil

from loadtests.faults.experiment import Experiment, found
from loadtests.faults.outcome import Figure

GUESSERS, GUESSING = 16, 5  # clients, seconds
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def kill_worker(experiment: Experiment) -> Iterator[Figure]:
    """Kill the worker with the most connections, and wait until gunicorn has replaced it."""

    def connections(worker: psutil.Process) -> int:
        try:
            return len(worker.net_connections("inet"))
        except psutil.NoSuchProcess:
            return -1

    before = experiment.master.children()
    victim = max(before, key=connections)
    victim.kill()

    def replaced() -> bool:
        workers = experiment.master.children()
        return victim not in workers and len(workers) == len(before)

    took = experiment.wait(replaced, "gunicorn does not replace the worker that was killed")
    yield Figure("replaced after", took, 5, " s")


def kill_service(experiment: Experiment) -> None:
    """Kill the second service; its clients go to the first one when they are refused."""
    for process in [experiment.master, *experiment.master.children()]:
        process.kill()


# How to hold a request before its COMMIT, when the work is done: its transaction cannot store the
# answer. And after it: PostgreSQL waits for a standby before it says that it has committed.
HOLDS = {
    "before": (
        ["BEGIN", "LOCK TABLE shorturl_keptanswer IN SHARE MODE"],
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'keptanswer'",
        ["ROLLBACK"],
    ),
    "after": (
        ["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"],
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'",
        ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"],
    ),
}
LINKS = "SELECT key FROM shorturl_shorturl WHERE target_url = %s"


def kill_answer(experiment: Experiment) -> Iterator[Figure]:
    """Kill all workers before and after a COMMIT, and repeat each request until it is answered."""
    for when, (hold, held, release) in HOLDS.items():
        target_url, answers = f"https://kill-answer.invalid/{when}", list[str]()
        with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True  # ALTER SYSTEM is no part of a transaction
            for statement in hold:
                cursor.execute(statement)
            send = partial(create, experiment.place.urls[0], target_url, answers)
            first = threading.Thread(target=send)
            first.start()
            try:
                experiment.wait(partial(found, cursor, held), "the request does not get so far")
                for worker in experiment.master.children():
                    worker.kill()
            finally:
                for statement in release:
                    cursor.execute(statement)
                first.join()
            yield Figure(f"answered when killed {when} the COMMIT", len(answers), 0)
            experiment.wait(send, "the request is not answered")
            cursor.execute(LINKS, [target_url])
            links = [key for (key,) in cursor.fetchall()]
        yield Figure("links", len(links), 1)
        yield Figure("links as answered", int(links == answers), 1, least=True)


def create(url: str, target_url: str, answers: list[str]) -> bool:
    """Create a link with the target as Idempotency-Key; return whether it was answered.

    The key of the link is appended to `answers`.
    """
    headers = {"Content-Type": "application/json", "Idempotency-Key": target_url}
    body = json.dumps({"target_url": target_url})
    connection = HTTPConnection(urlsplit(url).netloc)
    with suppress(OSError, http.client.HTTPException), closing(connection):
        connection.request("POST", "/api/links", body, headers)
        response = connection.getresponse()
        if response.status == http.client.CREATED:
            answers.append(json.load(response)["key"])
            return True
    return False


def wrong_passwords(experiment: Experiment) -> Iterator[Figure]:
    """Have 16 clients post wrong passwords, each for a user name of its own, again and again.

    To check one takes half a second of a processor.
    """
    answers: Counter[int] = Counter()
    clients = [
        threading.Thread(target=guess, args=(experiment.place.urls[0], f"user-{number}", answers))
        for number in range(GUESSERS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    yield Figure("guesses answered", answers.total(), GUESSERS, least=True)
    yield Figure("500s", answers[500], 0)


def guess(url: str, name: str, answers: Counter[int]) -> None:
    """Post wrong passwords for GUESSING seconds, and count the answers by their status."""
    opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))
    deadline, token = time.monotonic() + GUESSING, None
    while time.monotonic() < deadline:
        try:
            if token is None:
                with opener.open(f"{url}/login", timeout=GUESSING) as response:
                    token = TOKEN.findall(response.read().decode())[0]
            form = {"username": name, "password": "wrong", "csrfmiddlewaretoken": token}
            data = urlencode(form).encode()
            with opener.open(f"{url}/login", data, timeout=GUESSING) as response:
                answers[response.status] += 1
        except URLError as error:
            answers[getattr(error, "code", 0)] += 1
        except OSError:
            answers[0] += 1
