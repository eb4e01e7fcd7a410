"""The options that the scripts share, on the command line and in Locust's web form."""

from typing import Any

# As the service's tables have them, which a test compares; the scripts know the service by HTTP
# only, and Locust wants the choices before there is a host to ask.
CREATING = (
    "naive",
    "check_first",
    "table_lock",
    "forgiveness",
    "savepoint",
    "on_conflict",
    "get_or_create",
    "timestamp_key",
    "advisory_lock",
    "permuted_sequence",
)
RESOLVING = (
    "naive",
    "atomic_only",
    "select_for_update",
    "f_expression",
    "f_expression_full_save",
    "update_returning",
    "compare_and_swap",
    "repeatable_read",
    "advisory_lock",
)

# As many users as `make run` has threads. More of them only wait in the service's queue, and the
# one who edits gets less of its time. docs/load-tests.md says how the numbers were measured.
USERS = 16
SECONDS = 8
KEY_LENGTH = 1
REPORTS = "reports"
HOST = "http://127.0.0.1:8000"
# Seconds that a request in flight may take to finish when somebody lowers the number of users.
STOP_TIMEOUT = 5


def add_common(parser: Any) -> None:
    """Add what every script has, and give Locust's own options defaults, so that none is needed."""
    parser.add_argument(
        "--reports",
        default=REPORTS,
        metavar="DIRECTORY",
        help="where the verdict is written as JSON and CSV",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="somebody causes faults on purpose: a database that is away is no failure",
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


def add_strategy(parser: Any, strategies: tuple[str, ...], default: str) -> None:
    """Add --strategy."""
    parser.add_argument(
        "--strategy", choices=strategies, default=default, help="which way to write the operation"
    )
