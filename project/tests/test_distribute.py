"""`manage.py distribute`, as far as a plain PostgreSQL goes: Citus' functions are stand-ins.

They note which tables they are called for, as Citus does in its catalogue. What only a cluster can
say needs CITUS_URL.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.checks import Tags, run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from ruamel.yaml import YAML

from project import citus
from project.citus_strategies import EVERY_SHARD, REFUSED, SINGLE_SHARD, TABLES, UNKNOWN
from project.tests import citus_walk, on_citus
from project.tests.conftest import ROOT, run_in
from shorturl import operations
from shorturl.keys import KEY_CONSTRAINT
from shorturl.models import ShortUrl, VisitCount
from shorturl.resolving import in_memory
from shorturl.strategies import Verdict

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
# Of three links at four times: sixty referrers, and one value of each other dimension.
ROLLED_UP = 3 * 4 * (60 + 4)
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


def test_without_the_extension_the_sql_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("distribute", "--dry-run")
    shown = capsys.readouterr()
    assert shown.err.startswith("This database has no Citus")
    assert "SELECT create_distributed_table('shorturl_shorturl', 'key');" in shown.out.splitlines()
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
def test_duplicate_keys_are_told() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {citus.LINKS} DROP CONSTRAINT {KEY_CONSTRAINT}")
        for _ in range(2):
            cursor.execute(f"INSERT INTO {citus.LINKS} (key, target_url) VALUES ('two', 'x')")
    with pytest.raises(CommandError, match="The key 'two' is there more than once"):
        call_command("distribute")


def test_every_strategy_has_a_line_in_the_tables() -> None:
    assert {name: sorted(lines) for name, lines in TABLES.items()} == {
        name: sorted(strategies) for name, strategies in operations.STRATEGIES.items()
    }


COUNTING = [
    (operation, name)
    for operation in ("resolving", "recording_visits")
    for name, strategy in operations.STRATEGIES[operation].items()
    if strategy.function is not in_memory.resolve and TABLES[operation][name][0] != REFUSED
]


MAKING = [
    (operation, name)
    for operation in ("creating", "reusing", "idempotency", "spending")
    for name, strategy in operations.STRATEGIES[operation].items()
    if strategy.verdict is Verdict.RIGHT and TABLES[operation][name][0] != REFUSED
]


@pytest.mark.parametrize(("operation", "name"), COUNTING)
def test_what_the_table_says_follows_from_the_statements(operation: str, name: str) -> None:
    """They name the key, by which Citus finds the node, or not; none calls what is VOLATILE."""
    ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with CaptureQueriesContext(connection) as captured:
        for _ in range(2):
            on_citus.call(operation, name, "hot")
    sent = [query["sql"] for query in captured if "shorturl_" in query["sql"]]
    functions = {name for sql in sent for name in re.findall(r"(\w+)\(", sql)}
    assert "statement_timestamp" in functions
    volatile = "SELECT proname FROM pg_proc WHERE provolatile = 'v'"
    assert functions.isdisjoint(name for (name,) in citus.rows(volatile))
    by_key = [re.search(r"\bkey\"? = |INSERT INTO \S+ .*\bkey", sql) for sql in sent]
    assert all(by_key) is (TABLES[operation][name][0] != EVERY_SHARD)


def of_one_key(sql: str) -> bool:
    """Return whether Citus gives a statement that changes visits to one node as it is.

    One that inserts does so by VALUES and nothing else; in all others, each part names the key.
    """
    if sql.lstrip().startswith("INSERT"):
        keys = re.findall(r"\('(\w+)', '\d{4}-", sql)
        return len({*keys}) == 1 and not re.search(r"\b(WITH|SELECT)\b", sql)
    keys = re.findall(r"\bkey = '(\w+)'", sql)
    return (
        len({*keys}) == 1
        and len(keys) == sql.count("shorturl_visitcount")
        and "INSERT" not in sql
        and not re.search(r"RETURNING [^)]*\(", sql)
    )


@pytest.mark.parametrize("name", operations.STRATEGIES["rolling_up"])
def test_what_a_roll_up_changes_is_of_one_key_as_the_table_says(
    name: str, settings: Settings
) -> None:
    """With all that belongs to it: compaction, coarsening, partial counts."""
    settings.SHORTURL_ROLLING_UP = name
    now = timezone.now()
    on_citus.fill(["one", "two"], now)
    VisitCount.objects.filter(starts_at__lt=now - timedelta(days=1), unit="h").update(unit=None)
    on_citus.fill(["one"], now - timedelta(days=1))
    with CaptureQueriesContext(connection) as sent:
        call_command("roll_up")
    changing = [sql for sql in map(on_citus.sql_of, sent) if re.search(on_citus.CHANGES, sql)]
    assert all(map(of_one_key, changing)) is (TABLES["rolling_up"][name][0] == SINGLE_SHARD)
    assert {"GROUPING SETS" in sql for sql in changing if "DELETE" in sql} == {True, False}


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


def test_the_profile_chooses_no_strategy_that_cannot_run_there(settings: object) -> None:
    services = YAML(typ="safe", pure=True).load(ROOT / "docker-compose.yml")["services"]
    chosen = {
        operation: services["citus-web"]["environment"].get(
            operations.setting(operation), getattr(settings, operations.setting(operation))
        )
        for operation in TABLES
    }
    ways = {operation: TABLES[operation][name][0] for operation, name in chosen.items()}
    assert REFUSED not in ways.values()
    one_node = ("creating", "resolving", "recording_visits", "rolling_up")
    assert {ways[operation] for operation in one_node} == {SINGLE_SHARD}


@pytest.mark.django_db(transaction=True)
def test_what_is_asked_of_a_cluster_holds_without_one() -> None:
    for name in ("combined", "one_transaction"):
        hits, visits = on_citus.follow("recording_visits", name, "cold")
        assert hits == visits == on_citus.DUE
    hits, visits = on_citus.follow("resolving", "slotted_counter", "hot")
    assert (hits, visits) == (on_citus.DUE, 0)
    for operation, name in MAKING:
        made, due = on_citus.make(operation, name, "some")
        assert made == due, (operation, name)
    made, due = on_citus.make("spending", "count_then_insert", "some")
    assert made >= due
    for name in ("batches", "by_key"):
        found = on_citus.roll_up(name, "some")
        assert (found["visits"], found["rows"]) == (found["due"], ROLLED_UP)


needs_a_cluster = pytest.mark.skipif(
    "CITUS_URL" not in os.environ, reason="it takes a cluster, named by CITUS_URL"
)
CLUSTER = {"DATABASE_URL": os.environ.get("CITUS_URL", ""), "SHORTURL_LOCAL": "on"}


def done(directory: Path, *arguments: str, **environment: str) -> str:
    """Run a command on the cluster; return what it printed."""
    ended = run_in(directory, *arguments, **CLUSTER, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def on_a_cluster(project_copy: Path) -> Iterator[Path]:
    """Have the tables of the cluster distributed, with a link in them before, and undo it."""
    shutil.copy(on_citus.__file__, project_copy)
    done(project_copy, "manage.py", "migrate")
    done(project_copy, "manage.py", "distribute", "--undo")
    done(project_copy, "on_citus.py", "recording_visits", "upsert", "before")
    done(project_copy, "manage.py", "distribute")
    yield project_copy
    done(project_copy, "manage.py", "distribute", "--undo")


KEPT = """
from shorturl.models import ShortUrl, VisitCount
print(ShortUrl.objects.get(key="before").hits, VisitCount.objects.get(short_url="before").hits)
"""


@needs_a_cluster
def test_twice_on_a_cluster_that_keeps_what_was_there(on_a_cluster: Path) -> None:
    assert done(on_a_cluster, "manage.py", "distribute").strip() == "Nothing to do."
    kept = done(on_a_cluster, "manage.py", "shell", "--verbosity=0", f"--command={KEPT}")
    assert kept.split() == [str(on_citus.DUE)] * 2


@needs_a_cluster
@pytest.mark.parametrize(
    ("operation", "name"),
    [each for each in COUNTING if each != ("recording_visits", "get_then_create")],
)
def test_counts_on_a_cluster(operation: str, name: str, on_a_cluster: Path) -> None:
    """Several threads follow a link, whose rows are all on one node, and each hit is counted."""
    how, why = TABLES[operation][name]
    ended = run_in(
        on_a_cluster, "on_citus.py", operation, name, f"{operation[:3]}-{name}"[:20], **CLUSTER
    )
    if how == UNKNOWN and ended.returncode:
        pytest.xfail(f"{why}: {ended.stderr}")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["hits"], found["nodes"]) == (on_citus.DUE, 1)
    assert found["visits"] == (on_citus.DUE if operation == "recording_visits" else 0)
    if how == SINGLE_SHARD:
        assert found["tasks"] == [1], "each statement is one node's"


@needs_a_cluster
@pytest.mark.parametrize(("operation", "name"), MAKING)
def test_links_made_on_a_cluster(operation: str, name: str, on_a_cluster: Path) -> None:
    """Several threads want one key, target or answer, or a quota: none gets what another has."""
    found = json.loads(
        done(on_a_cluster, "on_citus.py", operation, name, f"{operation[:3]}-{name}")
    )
    assert found["made"] == found["due"]


@needs_a_cluster
def test_a_roll_up_on_a_cluster(on_a_cluster: Path) -> None:
    """Several at once compact, coarsen and roll up: each visit is there once, in fewer rows."""
    found = json.loads(done(on_a_cluster, "on_citus.py", "rolling_up", "by_key", "rolled-up"))
    assert (found["visits"], found["rows"]) == (found["due"], ROLLED_UP)
    assert found["tasks"] == [1], "each statement that changes rows is one node's"
    done(on_a_cluster, "manage.py", "roll_up", SHORTURL_ROLLING_UP="by_key")


@needs_a_cluster
def test_a_walk_through_the_service_on_a_cluster(on_a_cluster: Path) -> None:
    """As the profile sets it; what is wrong is told by step."""
    shutil.copy(citus_walk.__file__, on_a_cluster)
    ended = run_in(on_a_cluster, "citus_walk.py", **CLUSTER, SHORTURL_VISITS="one_transaction")
    assert ended.returncode == 0, ended.stderr
    wrong = json.loads(ended.stdout)
    assert not wrong, "\n".join(wrong.values())
