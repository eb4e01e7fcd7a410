"""Where the processor time of a redirect goes: a sampling profile of the workers, by part.

    .venv/bin/python -m loadtests.profiling    half a minute; `make bench` prints the same table

`loadtests.profiling:application` is the service. Each worker writes down the functions that it is
in, each time it has used SAMPLE_SECONDS of the processor. A profiler that is called for each
function, as cProfile is, would make short functions look long.
"""

import dis
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from gunicorn.util import import_app

from loadtests import measuring
from loadtests.measuring import FILL, ONE_KEY, RANDOM_KEYS
from loadtests.servers import NO_REFUSALS, OwnPostgres, own_postgres, serving

CLIENTS = 64
LINKS = 1_000
SAMPLE_SECONDS = 0.001  # of processor time; many kernels make 0.004 of it
RESUME = dis.opmap["RESUME"]
PROTOCOL = "gunicorn.asgi.protocol.ASGIProtocol"
REDIRECTS = "project.serving.redirects"
COUNTER = "project.serving.hit_counter"
# By part: what the names of its functions begin with. The innermost function of a sample that is
# in this table decides, and of several parts the first.
PARTS = {
    "gunicorn: receive and parse": (
        "gunicorn.asgi.parser.",
        *(f"{PROTOCOL}.{name}" for name in ("data_received", "_feed", "_on_")),
    ),
    "gunicorn: send": (
        *(f"{PROTOCOL}.{name}" for name in ("_handle_http_request.<locals>", "_send", "_safe")),
        *(f"gunicorn.asgi.protocol.{name}" for name in ("_scan", "_get_cached")),
    ),
    "gunicorn: tasks and timers of a request": ("gunicorn.asgi.",),
    "event loop, between the functions": ("gunicorn.",),
    "routing and headers": (
        *(f"{REDIRECTS}.{name}" for name in ("make_environ", "is_secure")),
        *("project.middleware.", "shorturl.links.keys."),
    ),
    "the visit's classification": ("shorturl.visits.", "shorturl.client_address."),
    "future and timer": (
        *(f"{COUNTER}.{name}" for name in ("take_unanswered.", "set_")),
        *(f"{COUNTER}.HitCounter.{name}" for name in ("count.", "refuse_late_hits.")),
    ),
    "the batch's lists and JSON": ("json.", "shorturl.strategies.", f"{COUNTER}."),
    "the driver": ("psycopg2.extras.NamedTupleCursor.execute", "project.serving.connection."),
    "rows back": ("psycopg2.extras.", f"{REDIRECTS}.CountingSessions."),
    "the task is woken, and the answer made": ("shorturl.", f"{REDIRECTS}.Redirects.follow."),
    "the answer passed to gunicorn": (f"{REDIRECTS}.", "project.serving.bridge."),
    "log and metrics": ("project.observability.", "prometheus_client.", "logging."),
}
REST = "the rest"


class Profiled:
    """The service. A worker begins at its first request to write samples into PROFILE_FILE."""

    service: Any = None
    file: int  # descriptor

    async def __call__(self, *request: Any) -> None:
        """Answer a request."""
        if self.service is None:
            self.service = import_app("project.asgi:application")
            self.file = os.open(os.environ["PROFILE_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            signal.signal(signal.SIGPROF, self.write_sample)
            signal.siginterrupt(signal.SIGPROF, False)
            signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
        await self.service(*request)

    def write_sample(self, _number: int, frame: FrameType | None) -> None:
        """Write the names of the functions that are under way as a line, the innermost first."""
        if frame and frame.f_code.co_code[frame.f_lasti] == RESUME:
            frame = frame.f_back  # the function has only begun: the time is that of its caller
        names = []
        while frame:
            names.append(f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}.")
            frame = frame.f_back
        os.write(self.file, ("\t".join(names) + "\n").encode())


def find_part(sample: str) -> str:
    """Return the part to which a line of a profile belongs."""
    for name in sample.split("\t"):
        for part, beginnings in PARTS.items():
            if name.startswith(beginnings):
                return part
    return REST


def profile(postgres: OwnPostgres, scripts: Mapping[str, str], *, seconds: int) -> str:
    """Return a table of the microseconds of a redirect, by part and by script of wrk."""
    columns: dict[str, dict[str, float]] = {}
    with TemporaryDirectory() as directory:
        file = Path(directory) / "samples"
        settings = {**NO_REFUSALS, "DATABASE_URL": postgres.url, "PROFILE_FILE": str(file)}
        # Metrics are counted only with a token, and take their part of the time.
        settings["SHORTURL_METRICS_TOKEN"] = "a-token-for-the-benchmark"  # noqa: S105
        with serving("loadtests.profiling:application", **settings) as service:
            for title, script in scripts.items():
                measuring.measure(postgres, service, script, CLIENTS, 1)  # loads all modules
                file.write_text("")  # without the samples so far
                measured = measuring.measure(postgres, service, script, CLIENTS, seconds)
                parts = Counter(map(find_part, file.read_text().splitlines()))
                microseconds = measured.microseconds["service"]
                columns[title] = {
                    part: microseconds * parts[part] / parts.total() for part in [*PARTS, REST]
                }
    rows = [
        [part, *(f"{column[part]:.1f}" for column in columns.values())] for part in [*PARTS, REST]
    ]
    rows.append(["all", *(f"{sum(column.values()):.0f}" for column in columns.values())])
    return measuring.format_table(rows, ["", *columns])


def main() -> int:
    """Print the profile of redirects, and return the exit code."""
    about = measuring.describe_machine()
    scripts = {"one key": ONE_KEY, "random keys": RANDOM_KEYS.format(links=LINKS)}
    with own_postgres() as postgres:
        with serving(DATABASE_URL=postgres.url):  # which makes the tables
            pass
        measuring.execute(postgres, FILL.format(first=1, last=LINKS))
        print(profile(postgres, scripts, seconds=5))
    print(f"\nMeasured by `python -m loadtests.profiling`: {about}.")
    return 0


application = Profiled()
if __name__ == "__main__":
    sys.exit(main())
