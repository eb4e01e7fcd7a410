"""kill -9 between the work and the answer, and the same Idempotency-Key again."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection
from urllib.parse import urlsplit

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.kill_roll_up import found

# The work is done, and its transaction cannot store the answer.
BEFORE_COMMIT = (
    ["BEGIN", "LOCK TABLE shorturl_keptanswer IN SHARE MODE"],
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'keptanswer'",
    ["ROLLBACK"],
)
# The transaction is committed on the disk, and PostgreSQL waits for a standby before it says so.
AFTER_COMMIT = (
    ["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"],
    "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'",
    ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"],
)
LINKS = "SELECT key FROM shorturl_shorturl WHERE target_url = %s"


def kill_answer(experiment: Experiment) -> Iterator[Figure]:
    """Kill all workers before and after the COMMIT, and send each request until it is answered."""
    for name, (hold, held, release) in {
        "before": BEFORE_COMMIT,
        "after": AFTER_COMMIT,
    }.items():
        target_url = f"https://kill-answer.invalid/{name}"
        answers: list[str] = []
        with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True  # ALTER SYSTEM is no part of a transaction
            for statement in hold:
                cursor.execute(statement)
            first = threading.Thread(target=send, args=(experiment, target_url, answers))
            first.start()
            try:
                experiment.wait(partial(found, cursor, held), "the request does not get so far")
                for worker in experiment.master.children():
                    worker.kill()
            finally:
                for statement in release:
                    cursor.execute(statement)
                first.join()
            yield Figure(f"answered when killed {name} the COMMIT", len(answers), 0)
            experiment.wait(
                lambda url=target_url, told=answers: send(experiment, url, told),  # type: ignore[misc]
                "the request is not answered",
            )
            cursor.execute(LINKS, [target_url])
            links = [key for (key,) in cursor.fetchall()]
        yield Figure("links", len(links), 1)
        yield Figure("links as answered", int(links == answers), 1, least=True)


def send(experiment: Experiment, target_url: str, answers: list[str]) -> bool:
    """Send the request, and add the key of its link to the `answers`; return whether it came."""
    host = urlsplit(experiment.place.urls[0]).netloc
    headers = {"Content-Type": "application/json", "Idempotency-Key": target_url}
    body = json.dumps({"target_url": target_url})
    with suppress(OSError, http.client.HTTPException), closing(HTTPConnection(host)) as client:
        client.request("POST", "/api/links", body, headers)
        response = client.getresponse()
        if response.status == http.client.CREATED:
            answers.append(json.load(response)["key"])
            return True
    return False
