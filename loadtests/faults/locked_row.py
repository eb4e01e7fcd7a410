"""The row of the hot short URL, locked by another session for long."""

from collections.abc import Iterator
from contextlib import closing

from loadtests.faults.experiment import Experiment, Figure

BEFORE, LOCKED = 2, 6  # seconds


def locked_row(experiment: Experiment) -> Iterator[Figure]:
    """Keep the row locked in a transaction of our own; compare the other keys' throughput."""
    traffic = experiment.traffic
    started = traffic.cold_redirects()
    experiment.go_on(BEFORE)
    usual = (traffic.cold_redirects() - started) / BEFORE
    with closing(experiment.postgres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM shorturl_shorturl WHERE key = %s FOR UPDATE", [traffic.hot])
        started = traffic.cold_redirects()
        experiment.go_on(LOCKED)
        meanwhile = (traffic.cold_redirects() - started) / LOCKED
    yield Figure("other keys", 100 * meanwhile / usual, 80, " %", least=True)
