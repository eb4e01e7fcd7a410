"""Faults of the service: its workers are killed, or all of its processes."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import psutil

from loadtests.faults.experiment import Experiment, Figure, Place, found, served
from loadtests.faults.traffic import HttpClient
from loadtests.harness.own_postgres import own_postgres

# How to hold a request before its COMMIT, when its work is done: its transaction cannot store the
# answer. And after the COMMIT: PostgreSQL waits for a standby before it acknowledges the COMMIT.
HOLDS = {
    "before": (
        ["BEGIN", "LOCK TABLE shorturl_idempotencyrecord IN SHARE MODE"],
        "SELECT 1 FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND query ~ 'idempotencyrecord'",
        ["ROLLBACK"],
    ),
    "after": (
        ["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"],
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'",
        ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"],
    ),
}
LINKS = "SELECT key FROM shorturl_shorturl WHERE target_url = %s"


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


@contextmanager
def two_services(options: str) -> Iterator[Place]:
    """Yield two services on one PostgreSQL. Each client uses one of them."""
    with (
        own_postgres(options=options) as postgres,
        served(postgres.url) as one,
        served(postgres.url) as other,
    ):
        yield Place(postgres, [one, other], [one.url, other.url])


def kill_service(experiment: Experiment) -> None:
    """Kill the second service; its clients go to the first one when their connection is refused."""
    for process in [experiment.master, *experiment.master.children()]:
        process.kill()


def kill_answer(experiment: Experiment) -> Iterator[Figure]:
    """Kill all workers before and after a COMMIT, and repeat each request until it is answered."""
    for when, (hold, held, release) in HOLDS.items():
        target_url, answers = f"https://kill-answer.invalid/{when}", list[str]()
        send = partial(create, experiment.place.urls[0], target_url, answers)
        # ALTER SYSTEM cannot be part of a transaction.
        with experiment.postgres.session(autocommit=True) as cursor:
            for statement in hold:
                cursor.execute(statement)
            with ThreadPoolExecutor() as pool:
                pool.submit(send)
                try:
                    experiment.wait(partial(found, cursor, held), "the request does not get so far")
                    for worker in experiment.master.children():
                        worker.kill()
                finally:
                    for statement in release:
                        cursor.execute(statement)
            yield Figure(f"answered when killed {when} the COMMIT", len(answers), 0)
            experiment.wait(send, "the request is not answered")
            cursor.execute(LINKS, [target_url])
            links = [key for (key,) in cursor.fetchall()]
        yield Figure("links", len(links), 1)
        yield Figure("links as answered", int(links == answers), 1, least=True)


def create(url: str, target_url: str, answers: list[str]) -> bool:
    """Create a link with its target as Idempotency-Key, and append its key to `answers`.

    Return whether it was answered.
    """
    with closing(HttpClient([url])) as client:
        content, headers = {"target_url": target_url}, {"Idempotency-Key": target_url}
        answer = client.ask("POST", "/api/links", content, **headers)
    if answer.kind == "201":
        answers.append(json.loads(answer.body)["key"])
    return answer.kind == "201"
