"""The options that the scripts share, on the command line and in Locust's web form."""

from typing import Any

from loadtests.harness.measured_operations import OPERATIONS

# Half as many users as `make run` has threads. With more, the editor would get less of the
# service's time. docs/load-tests.md has the measurements.
USERS = 16
SECONDS = 8
KEY_LENGTH = 1
REPORTS = "reports"
HOST = "http://127.0.0.1:8000"
# Seconds that a request in flight may take to finish when somebody lowers the number of users.
STOP_TIMEOUT = 5


def add_common(parser: Any) -> None:
    """Add the common options, and set defaults of Locust's own, so that none is required."""
    parser.add_argument(
        "--reports",
        default=REPORTS,
        metavar="DIRECTORY",
        help="where the result is written as JSON and CSV",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="faults are injected on purpose: an unavailable service is expected",
    )
    parser.add_argument(
        "--kill-worker-of",
        type=int,
        metavar="PID",
        help="half-way, kill -9 a worker of the gunicorn with this process id",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--kills",
        type=int,
        choices=range(1, 11),
        default=1,
        metavar="NUMBER",
        help="kill so many workers, up to 10, one after another, evenly spread over the run",
        include_in_web_ui=False,
    )
    parser.set_defaults(
        host=HOST,
        num_users=USERS,
        spawn_rate=USERS,
        run_time=f"{SECONDS}s",
        stop_timeout=f"{STOP_TIMEOUT}s",
        # Locust would listen on all of the machine's addresses.
        web_host="127.0.0.1",
        master_bind_host="127.0.0.1",
    )


def add_strategy(parser: Any, operation: str, default: str) -> None:
    """Add --strategy, one of that operation's."""
    choices = OPERATIONS[operation].strategies
    parser.add_argument("--strategy", choices=choices, default=default, help="the strategy to run")
