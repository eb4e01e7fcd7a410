"""What several test packages share."""

import gc
import signal
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from django.conf import settings
from django.core.management.commands import flush
from django.db import connection
from django.test import Client, override_settings

LONG_WAITS = (
    " -c lock_timeout=10s -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
    " -c synchronous_commit=off"
)
TABLES_OF_MIGRATIONS = {"django_content_type", "auth_permission"}  # filled by migrations


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run the suite without its packages, restore Ctrl-C, make garbage collection rarer.

    A shell makes its background jobs ignore Ctrl-C, and their programs inherit that.
    """
    if config.args == config.getini("testpaths") and not find_spec("playwright"):
        raise pytest.UsageError(
            "The tests need more packages than the service: run `make test`, or "
            "pip install -r requirements.txt"
        )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(20_000)  # the default is 700 new objects, which takes longer


@pytest.fixture(scope="session", autouse=True)
def flush_by_delete() -> Iterator[None]:
    """Empty the tables after a test that commits by DELETEs in one message, not by TRUNCATE.

    A TRUNCATE takes 80 ms: it writes files, and content types and permissions are made again.
    """

    def sql_flush(*_: object, **__: object) -> list[str]:
        from django.contrib.contenttypes.models import ContentType

        ContentType.objects.clear_cache()  # the signal would do so, but none is sent
        tables = {*connection.introspection.django_table_names()} - TABLES_OF_MIGRATIONS
        names = map(connection.ops.quote_name, sorted(tables))
        return ["; ".join(f"DELETE FROM {name}" for name in names)]  # noqa: S608 - Django's own

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "sql_flush", sql_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def change_settings() -> Iterator[None]:
    """Change settings that would make tests slow or random."""
    with override_settings(
        # The service's hash of a password takes 240 ms on purpose.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        # WhiteNoise would list all static files for each test's client, which takes 15 ms.
        WHITENOISE_USE_FINDERS=False,
        # Networks are hashed with it, and with a random one two of eight may have the same hash.
        SECRET_KEY="for the tests",  # noqa: S106
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def wait_longer_for_locks() -> None:
    """Wait longer for a lock than the service does, for ever for a statement, not for the disk.

    On a busy machine an exploration may wait that long for a lock, and DROP DATABASE for the disk.
    A test in a transaction may pause. A crash may lose the tests' database.
    """
    if "options" in connection.settings_dict["OPTIONS"]:  # PgBouncer accepts none
        connection.settings_dict["OPTIONS"]["options"] += LONG_WAITS


@pytest.fixture(scope="session", autouse=True)
def skip_explorations_behind_a_pooler() -> Iterator[None]:
    """Skip explorations where the tests run through PgBouncer."""

    def skip(_: object) -> None:
        pytest.skip("the explorer tells sessions apart, and PgBouncer passes them around")

    with pytest.MonkeyPatch.context() as patch:
        if settings.DATABASE_POOLER != "none":
            patch.setattr("pginterleave.processes.scheduler.Scheduler.__enter__", skip)
        yield


@pytest.fixture
def client() -> Client:
    """Return the client of a person: Django's own has no User-Agent, and so is a bot."""
    return Client(headers={"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"})
