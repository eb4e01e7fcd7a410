"""The scratch database: separate from the service's, kept, and used by one process at a time."""

import threading
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import OperationalError

from lab import scratch_database as module
from lab.exceptions import LabRefusal
from lab.scratch_database import LOCK, check_role, is_locked, name_beside, scratch_database
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def host() -> Iterator[BaseDatabaseWrapper]:
    session = connection.copy()
    yield session
    session.close()


def test_it_is_separate() -> None:
    own = connection.settings_dict["NAME"]
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    with scratch_database() as name:
        assert connection.settings_dict["NAME"] == name != own
        assert not ShortUrl.objects.filter(key="mine").exists()
    assert connection.settings_dict["NAME"] == own
    assert ShortUrl.objects.get().key == "mine"


def test_one_process_at_a_time_uses_it(host: BaseDatabaseWrapper) -> None:
    told = threading.Event()
    with host.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])

    def end_the_other() -> None:
        with host.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        told.set()

    with scratch_database(waiting=end_the_other):
        assert told.is_set()
        assert is_locked(host)
    with scratch_database(waiting=told.clear):
        assert told.is_set()


def test_sessions_that_a_killed_process_has_left_are_ended(host: BaseDatabaseWrapper) -> None:
    with scratch_database() as name:
        pass
    host.settings_dict["NAME"] = name
    host.ensure_connection()
    with scratch_database():
        pass
    with pytest.raises(OperationalError), host.cursor() as cursor:
        cursor.execute("SELECT 1")


def test_names_of_two_services_never_meet() -> None:
    long = "a" * 50
    assert len({name_beside(name) for name in ("a", "a_lab", long, long + "b")}) == 4
    assert len(name_beside("ä" * 63)) < len(name_beside("a" * 63)) <= 63


def test_a_role_that_may_not_create_databases_is_told(host: BaseDatabaseWrapper) -> None:
    with host.cursor() as cursor:
        cursor.execute("SET ROLE pg_read_all_data")
    with pytest.raises(LabRefusal, match="ALTER ROLE pg_read_all_data CREATEDB"):
        check_role(host)


@pytest.mark.exhaustive
def test_it_is_used_again_until_a_migration_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a database, which a killed process has left, is made again."""

    def keeps(key: str) -> bool:
        with scratch_database():
            # The last race leaves its rows here, and the sequence of their ids where it was before.
            link = {"id": 1_000_000, "target_url": "https://a.example/"}
            _, is_new = ShortUrl.objects.get_or_create(key=key, defaults=link)
            return not is_new

    assert [keeps("kept"), keeps("kept")] == [False, True]
    monkeypatch.setattr(module, "migrations_digest", lambda: "of tomorrow")
    assert [keeps("kept"), keeps("kept")] == [False, True]
    with connection.cursor() as cursor:  # as if it was killed while it made the tables
        name = name_beside(connection.settings_dict["NAME"])
        cursor.execute(f'COMMENT ON DATABASE "{name}" IS NULL')
    assert not keeps("kept")
