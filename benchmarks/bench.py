"""The rounds of the benchmark: every strategy behind a gunicorn of its own, and without one."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlencode

import psutil
from django.db import connection

from benchmarks import pgbench, wrk
from benchmarks.measurements import CEILING, Load, Measurement
from loadtests.harness.serving import NO_REFUSALS, serving
from shorturl.models import ShortUrl
from shorturl.resolving import STRATEGIES
from shorturl.strategies import Verdict

KEYS = 10_000
WARM_UP = 1  # seconds
ONE_LINE = "benchmarks.one_line:application"


class Bench:
    """The measurements, round by round: other load on the machine affects all strategies alike.

    Works in the database in use, which has to be an empty one. `lost` is the number of redirects
    that were answered and not counted.
    """

    def __init__(self, connections: Sequence[int], *, seconds: int) -> None:
        make_links()
        right = [strategy for strategy in STRATEGIES.values() if strategy.verdict is Verdict.RIGHT]
        self.scripts = {strategy.name: pgbench.script(strategy) for strategy in right}
        self.seconds = seconds
        self.lost = 0
        self.measurements = [Measurement(CEILING, Load(None, number)) for number in connections]
        for name in self.scripts:
            for keys in (1, KEYS):
                self.measurements += [
                    Measurement(name, Load(keys, number)) for number in connections
                ]

    def round(self, *, program: str | None, progress: Callable[[str], object]) -> None:
        """Measure everything once more, the strategies in random order; `program` is pgbench."""
        names = [CEILING, *self.scripts]
        for name in random.sample(names, len(names)):
            progress(name)
            mine = [one for one in self.measurements if one.strategy == name]
            chosen = {"SHORTURL_LAB": "off", "SHORTURL_LAB_LOAD": "off", **NO_REFUSALS}
            application = [ONE_LINE] if name == CEILING else []
            if name != CEILING:
                chosen["SHORTURL_RESOLVING"] = name
            with serving(*application, DATABASE_URL=database_url(), **chosen) as service:
                most = max(one.load.connections for one in mine)
                wrk.run(service.url, keys=1, connections=most, seconds=WARM_UP)
                for one in mine:
                    self.ask(one, service.url, processor=partial(used, service.process.pid))
            if program and name != CEILING:
                for one in mine:
                    hits_per_second = pgbench.run(
                        program,
                        self.scripts[name],
                        keys=one.load.keys or 1,
                        connections=one.load.connections,
                        seconds=self.seconds,
                    )
                    one.ceilings.append(hits_per_second)

    def ask(self, one: Measurement, url: str, *, processor: Callable[[], float]) -> None:
        """Measure `one` once more, and compare the redirects answered with the hits counted.

        `processor` returns the seconds of processor time that the workers have used by now.
        """
        load, before, began = one.load, pgbench.hits(), processor()
        sample = wrk.run(url, keys=load.keys, connections=load.connections, seconds=self.seconds)
        one.samples.append(sample)
        one.processor.append((processor() - began) / max(1, sample.requests))
        if load.keys:
            counted = pgbench.hits() - before  # including those answered too late for wrk
            self.lost += max(0, sample.requests - sample.errors - counted)


def used(master: int) -> float:
    """Return the seconds of processor time of gunicorn's workers."""
    times = [worker.cpu_times() for worker in psutil.Process(master).children()]
    return float(sum(each.user + each.system for each in times))


def make_links() -> None:
    """Make the links /k1 to /k<KEYS>."""
    ShortUrl.objects.bulk_create(
        ShortUrl(key=f"k{number}", target_url=f"https://example.com/{number}")
        for number in range(1, KEYS + 1)
    )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE shorturl_shorturl")


def database_url() -> str:
    """Return the DATABASE_URL of the database in use, whichever server it is on."""
    parameters = connection.get_connection_params()
    name = parameters.pop("dbname")
    texts = {name: value for name, value in parameters.items() if isinstance(value, (str, int))}
    return f"postgres:///{name}?{urlencode(texts)}"
