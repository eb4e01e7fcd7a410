"""`manage.py roll_up` again and again, while hits are appended, and kill -9 of every second one.

Its session in PostgreSQL goes on with the statement that it is in, and may commit it: so every
second time that is ended, too, as by a machine that fails.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from typing import Any

from loadtests.faults.experiment import TIMEOUT, Experiment, Figure, Place, Setup, plain
from loadtests.harness.serving import ROOT

ROLL_UPS = 8
LOCK = "SELECT 1 FROM shorturl_shorturl FOR UPDATE"  # which no append waits for, and a roll-up does
# by_key adds in a second statement.
MIDWAY = r"""
    SELECT pid FROM pg_stat_activity
    WHERE wait_event_type = 'Lock'
        AND query ~ '(free AS MATERIALIZED|^\s*INSERT INTO "?shorturl_visitcount)'
"""
END = f"SELECT pg_terminate_backend(pid) FROM ({MIDWAY}) AS midway"  # noqa: S608


def appending(setup: Setup) -> AbstractContextManager[Place]:
    """Have one service that counts with append_only."""
    return plain(replace(setup, strategy="append_only"))


def kill_roll_up(experiment: Experiment) -> Iterator[Figure]:
    """Roll up, and kill every second one when it has deleted its rows and not added them yet."""
    return roll_ups(experiment, LOCK)


def roll_ups(
    experiment: Experiment, lock: str, prepare: Callable[[Any, int], object] = lambda *_: None
) -> Iterator[Figure]:
    """Roll up, and kill every second one, of an odd number, when it meets `lock`.

    Before each, `prepare` is called with a cursor and its number.
    """
    failed = killed = ended = 0
    for number in range(ROLL_UPS):
        with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
            prepare(cursor, number)
            connection.commit()
            if number % 2:
                cursor.execute(lock)
            process = subprocess.Popen(
                [sys.executable, "manage.py", "roll_up"],
                cwd=ROOT,
                env={
                    **os.environ,
                    "SHORTURL_LOCAL": "on",
                    "DATABASE_URL": experiment.postgres.url,
                },
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                if number % 2:
                    experiment.wait(partial(found, cursor, MIDWAY), "the roll-up does not begin")
                    killed += 1
                else:
                    failed += process.wait(TIMEOUT) != 0
            finally:
                process.kill()
                process.wait()
            if number % 4 == 1:
                cursor.execute(END)
                ended += len(cursor.fetchall())
    yield Figure("failed roll-ups", failed, 0)
    yield Figure("killed", killed, ROLL_UPS // 2, least=True)
    yield Figure("sessions ended midway", ended, ROLL_UPS // 4, least=True)


def found(cursor: Any, query: str) -> bool:
    """Return whether a query finds any row now, not at the first look of this transaction."""
    cursor.execute("SELECT pg_stat_clear_snapshot()")
    cursor.execute(query)
    return bool(cursor.fetchall())
