"""`manage.py distribute`, as far as a plain PostgreSQL goes: Citus' functions are stand-ins.

They note which tables they are called for, as Citus does in its catalogue. What only a cluster can
say is in test_on_citus.py.
"""

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from django.db import connection, connections

from project import citus
from project.citus_checks import check_citus
from shorturl.keys import KEY_CONSTRAINT
from shorturl.models import ShortUrl

STANDS_IN = Path(__file__).with_name("citus_stand_ins.sql").read_text()
TABLES_BY_KEY = [model._meta.db_table for model in citus.BY_KEY]
PRIMARY_KEYS = f"""
    SELECT DISTINCT pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'p' AND conrelid::regclass::text = ANY (ARRAY{TABLES_BY_KEY})
"""
IDENTITIES = """
    SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod),
           pg_get_serial_sequence(attrelid::regclass::text, attname)
    FROM pg_attribute WHERE attidentity <> '' ORDER BY 1, 2
"""
LOCKED = """
    SELECT relation::regclass::text FROM pg_locks
    WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'
"""
pytestmark = pytest.mark.django_db


@pytest.fixture
def stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(citus, "is_installed", lambda: True)
    with connection.cursor() as cursor:
        cursor.execute(STANDS_IN)


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    call_command("distribute", *options)
    return capsys.readouterr().out.splitlines()


def test_without_the_extension_it_is_told() -> None:
    with pytest.raises(
        CommandError, match=r"This database has no Citus: .* CREATE EXTENSION citus"
    ):
        call_command("distribute")
    with pytest.raises(CommandError, match="no Citus, so none of its tables is distributed"):
        call_command("distribute", "--undo")


@pytest.mark.parametrize("other", ["--undo", "--dry-run"])
def test_the_table_of_strategies_goes_alone(other: str) -> None:
    with pytest.raises(CommandError, match="--strategies goes alone, without --dry-run and --undo"):
        call_command("distribute", "--strategies", other)


def test_without_the_extension_the_sql_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("distribute", "--dry-run")
    shown = capsys.readouterr()
    assert shown.err.startswith("This database has no Citus")
    assert "SELECT create_distributed_table('shorturl_shorturl', 'key');" in shown.out.splitlines()
    back = printed(capsys, "--dry-run", "--undo")
    assert len([line for line in back if "SELECT undistribute_table" in line]) == len(
        [line for line in shown.out.splitlines() if "SELECT create_" in line]
    )
    assert citus.rows(PRIMARY_KEYS) == [("PRIMARY KEY (id)",)]


@pytest.mark.usefixtures("stands_in")
def test_there_twice_and_back_twice(capsys: pytest.CaptureFixture[str]) -> None:
    identities = citus.rows(IDENTITIES)
    planned = printed(capsys, "--dry-run")
    assert citus.rows(PRIMARY_KEYS) == [("PRIMARY KEY (id)",)]
    assert printed(capsys) == planned
    assert citus.rows("SHOW statement_timeout") == citus.rows("SHOW lock_timeout") == [("0",)]
    assert planned[0].startswith("SET LOCAL")
    beside = "'key', colocate_with => 'shorturl_shorturl');"
    assert [line for line in planned if "create_distributed_table" in line] == [
        "SELECT create_distributed_table('shorturl_shorturl', 'key');",
        f"SELECT create_distributed_table('shorturl_partialcount', {beside}",
        f"SELECT create_distributed_table('shorturl_visitcount', {beside}",
    ]
    assert citus.rows(PRIMARY_KEYS) == [("PRIMARY KEY (id, key)",)]
    assert printed(capsys) == ["Nothing to do."]
    undone = printed(capsys, "--undo")
    assert sum("undistribute_table" in line for line in undone) == len(
        [line for line in planned if "SELECT create_" in line]
    )
    assert citus.rows("SELECT FROM pg_dist_partition") == []
    assert citus.rows(PRIMARY_KEYS) == [("PRIMARY KEY (id)",)]
    assert citus.rows(IDENTITIES) == identities
    assert printed(capsys, "--undo") == ["Nothing to do."]


@pytest.mark.usefixtures("stands_in")
def test_accounts_and_what_is_tied_to_them_are_on_every_node() -> None:
    """In the order of their foreign keys; what nothing ties to them stays a plain table."""
    call_command("distribute")
    references = "SELECT logicalrelid::text FROM pg_dist_partition WHERE repmodel = 't'"
    tables = {name for (name,) in citus.rows(references)}
    assert {"auth_user", "shorturl_apitoken", "django_admin_log"} < tables
    assert tables.isdisjoint({"django_session", "shorturl_spending", "shorturl_keptanswer"})
    order = [model._meta.db_table for model in citus.reference_models()]
    assert tables == {*order}
    assert order.index("auth_user") < order.index("shorturl_apitoken")
    assert order.index("django_content_type") < order.index("auth_permission")


@pytest.mark.usefixtures("stands_in")
def test_ids_go_on_where_they_were() -> None:
    def next_id() -> int:
        link = ShortUrl.objects.create(key=f"k{ShortUrl.objects.count()}", target_url="x")
        connection.check_constraints()  # or PostgreSQL alters no table in this transaction
        return link.pk

    first = next_id()
    call_command("distribute")
    assert next_id() == first + 1
    call_command("distribute", "--undo")
    assert next_id() == first + 2


@pytest.mark.usefixtures("stands_in")
def test_a_replica_of_the_coordinator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> list[str]:
        with monkeypatch.context() as patch:
            patch.setitem(connections.settings, "replica", connections.settings["default"])
            return [str(each.id) for each in check_citus(databases=["default"])]

    assert "project.E007" not in refused()
    call_command("distribute")
    assert "project.E007" in refused()


@pytest.mark.usefixtures("stands_in")
def test_a_worker_is_told_from_the_coordinator() -> None:
    call_command("distribute")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_dist_local_group SET groupid = 2")
    with pytest.raises(CommandError, match="a worker of the cluster: connect to its coordinator"):
        call_command("distribute", "--undo")
    (found,) = [
        each
        for each in run_checks(tags=[Tags.database], databases=["default"])
        if each.id == "project.E006"
    ]
    assert "DATABASE_URL leads to a worker" in found.msg


@pytest.mark.usefixtures("stands_in")
def test_what_fails_halfway_has_done_nothing() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION create_distributed_table(regclass, text, text)")
    with pytest.raises(CommandError, match=r"The database: .* Nothing was done\."):
        call_command("distribute")
    assert citus.rows(citus.DISTRIBUTED) == []
    assert citus.rows(PRIMARY_KEYS) == [("PRIMARY KEY (id)",)]


@pytest.mark.usefixtures("stands_in")
def test_nobody_else_uses_the_tables_from_the_first_change_on() -> None:
    locked: list[set[str]] = []

    def look(execute: Any, sql: Any, *rest: Any) -> Any:
        if "CREATE SEQUENCE" in sql:
            locked.append({name for (name,) in citus.rows(LOCKED)})
        return execute(sql, *rest)

    with connection.execute_wrapper(look):
        call_command("distribute")
    everywhere = {model._meta.db_table for model in citus.reference_models()}
    assert {*TABLES_BY_KEY} | everywhere <= locked[0]


@pytest.mark.usefixtures("stands_in")
def test_what_citus_only_knows_of_is_distributed_all_the_same() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO pg_dist_partition VALUES ('{citus.LINKS}', 'n', 's')")
    call_command("distribute")
    by_key = "SELECT logicalrelid::text FROM pg_dist_partition WHERE partmethod = 'h'"
    assert {name for (name,) in citus.rows(by_key)} == {*TABLES_BY_KEY}


@pytest.mark.usefixtures("stands_in")
def test_a_table_that_refers_to_links_by_id_is_told() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE note (link bigint REFERENCES {citus.LINKS} (id))")
    with pytest.raises(CommandError, match="The table note refers to a link by its id"):
        call_command("distribute")


@pytest.mark.usefixtures("stands_in")
def test_duplicate_keys_are_told() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {citus.LINKS} DROP CONSTRAINT {KEY_CONSTRAINT}")
        for _ in range(2):
            cursor.execute(f"INSERT INTO {citus.LINKS} (key, target_url) VALUES ('two', 'x')")
    with pytest.raises(CommandError, match="The key 'two' is there more than once"):
        call_command("distribute")


@pytest.mark.usefixtures("stands_in")
def test_a_strategy_that_cannot_run_there_is_refused(settings: object) -> None:
    def refused() -> list[str]:
        found = run_checks(tags=[Tags.database], databases=["default"])
        return [each.msg.partition(":")[0] for each in found if each.id == "project.E005"]

    settings.SHORTURL_RESOLVING = "repeatable_read"  # type: ignore[attr-defined]
    settings.SHORTURL_VISITS = "combined"  # type: ignore[attr-defined]
    settings.SHORTURL_REUSING = "serializable"  # type: ignore[attr-defined]
    assert refused() == []
    call_command("distribute")
    assert refused() == [
        "SHORTURL_RESOLVING='repeatable_read' cannot run on Citus",
        "SHORTURL_REUSING='serializable' cannot run on Citus",
        "SHORTURL_ROLLING_UP='batches' cannot run on Citus",
    ]
