"""`manage.py roll_up` again and again, while hits are appended, and kill -9 of every second one.

The session of a killed roll-up goes on in PostgreSQL with the statement that it is in, and may
commit it. So the sessions of half of them are ended as well, as when a machine fails.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

from loadtests.faults.experiment import Experiment, found, manage
from loadtests.faults.outcome import TIMEOUT, Figure

ROLL_UPS = 8
# Rows that a roll-up has to lock after it has deleted those that it moves, and an append has not.
# It is killed while it waits for them. For visits: the hour's row, to which single visits are
# added. In the first moment of an hour there is none, and the fault is not injected.
LINKS = "SELECT 1 FROM shorturl_shorturl FOR UPDATE"
HOURS = "SELECT 1 FROM shorturl_visitcount WHERE unit = 'h' FOR UPDATE"
# What an earlier roll-up has compacted. Another one adds to it when it has deleted kinds.
COMPACTED = "SELECT 1 FROM shorturl_visitcount WHERE unit = 'd' AND referrer = '*' FOR UPDATE"
# A roll-up that waits for a lock. by_key adds in a second statement.
MIDWAY = r"""
    SELECT pid FROM pg_stat_activity
    WHERE wait_event_type = 'Lock'
        AND query ~ '(free AS MATERIALIZED|^\s*INSERT INTO "?shorturl_visitcount)'
"""
END = f"SELECT pg_terminate_backend(pid) FROM ({MIDWAY}) AS midway"  # noqa: S608
# Makes visits older, so that hours are rolled up to days, and days to months.
AGE = """
    UPDATE shorturl_visitcount SET starts_at = starts_at
        - (CASE unit WHEN 'h' THEN 100 ELSE 1000 END + %s) * interval '1 day'
    WHERE unit IN ('h', 'd')
"""
# Single visits become old, and of up to a hundred kinds: more than a day of a link may have.
ENOUGH = """
    SELECT 1 FROM shorturl_visitcount
    WHERE unit IS NULL GROUP BY key HAVING count(DISTINCT id % 100) > 60
"""
CROWD = """
    UPDATE shorturl_visitcount
    SET starts_at = starts_at - %s * interval '1 day', referrer = id %% 100 || '.example'
    WHERE unit IS NULL
"""
OLD = 100  # days: more than hours are kept
RECENT = 3  # days: hours are kept, but of their dimensions only the devices

Prepare = Callable[[Experiment, Any, int], object]


def roll_ups(
    experiment: Experiment, lock: str, prepare: Prepare = lambda *_: None
) -> Iterator[Figure]:
    """Roll up, and kill every second one, of an odd number, when it waits for the rows of `lock`.

    `prepare` is called before each, with a cursor and the number.
    """
    failed = killed = ended = 0
    for number in range(ROLL_UPS):
        with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
            prepare(experiment, cursor, number)
            connection.commit()
            if number % 2:
                cursor.execute(lock)
            with manage("roll_up", experiment.postgres.url) as process:
                if number % 2:
                    experiment.wait(partial(found, cursor, MIDWAY), "the roll-up does not begin")
                    killed += 1
                else:
                    failed += process.wait(TIMEOUT) != 0
            if number % 4 == 1:
                cursor.execute(END)
                ended += len(cursor.fetchall())
    yield Figure("failed roll-ups", failed, 0)
    yield Figure("killed", killed, ROLL_UPS // 2, least=True)
    yield Figure("sessions ended midway", ended, ROLL_UPS // 4, least=True)


def age(experiment: Experiment, cursor: Any, number: int) -> None:
    """Let visits grow old, but not before a roll-up that is killed, which has to meet HOURS."""
    if number % 2 == 0:
        cursor.execute(AGE, [number])


def crowd(experiment: Experiment, cursor: Any, days: int) -> None:
    """Let single visits become so many days old, when there are enough."""
    experiment.wait(partial(found, cursor, ENOUGH), "there are few visits")
    cursor.execute(CROWD, [days])


def crowd_old(experiment: Experiment, cursor: Any, number: int) -> None:
    """Make single visits old; each pair of roll-ups has another day."""
    crowd(experiment, cursor, OLD + number // 2)


def crowd_recent(experiment: Experiment, cursor: Any, number: int) -> None:
    """Let single visits become some days old."""
    crowd(experiment, cursor, RECENT)
