"""Faults of the service: workers that are killed, and clients that keep it busy."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import psutil
import requests

from loadtests.faults.experiment import Experiment, found
from loadtests.faults.outcome import Figure
from loadtests.faults.traffic import HttpClient

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
    with closing(HttpClient([url])) as client:
        content, headers = {"target_url": target_url}, {"Idempotency-Key": target_url}
        answer = client.ask("POST", "/api/links", content, **headers)
    if answer.kind != "201":
        return False
    answers.append(json.loads(answer.body)["key"])
    return True


def wrong_passwords(experiment: Experiment) -> Iterator[Figure]:
    """Have 16 clients post wrong passwords again and again, each for another user name.

    To check a password takes half a second of a processor.
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
    session, deadline, token = requests.Session(), time.monotonic() + GUESSING, None
    session.trust_env = False  # no proxy
    while time.monotonic() < deadline:
        try:
            if token is None:
                page = session.get(f"{url}/login", timeout=GUESSING)
                page.raise_for_status()
                token = TOKEN.findall(page.text)[0]
            form = {"username": name, "password": "wrong", "csrfmiddlewaretoken": token}
            answers[session.post(f"{url}/login", form, timeout=GUESSING).status_code] += 1
        except requests.RequestException as error:
            answers[0 if error.response is None else error.response.status_code] += 1
