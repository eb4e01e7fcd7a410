"""What only a cluster can say: these tests take one, named by CITUS_URL; one runs without it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from project.database.citus_strategies import REFUSED, SINGLE_SHARD, TABLES
from project.tests.conftest import run_in
from project.tests.database import citus_walk, on_citus
from shorturl import operations
from shorturl.strategies import Verdict
from shorturl.strategies.resolving import in_memory

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

# Of three links at four times: sixty referrers, and one value of each other dimension.
ROLLED_UP = 3 * 4 * (60 + 4)
pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_what_a_walk_through_the_service_is_answered_without_one(settings: Settings) -> None:
    settings.LOCAL, settings.SHORTURL_VISITS = True, "one_transaction"
    assert citus_walk.walk() == {}


needs_a_cluster = pytest.mark.skipif(
    "CITUS_URL" not in os.environ, reason="it takes a cluster, named by CITUS_URL"
)
CLUSTER = {
    "DATABASE_URL": os.environ.get("CITUS_URL", ""),
    "DATABASE_CITUS": "on",
    "SHORTURL_LOCAL": "on",
    # Threads queue on the coordinator for what then takes every node.
    "DATABASE_LOCK_TIMEOUT": "60",
    "DATABASE_STATEMENT_TIMEOUT": "60",
}


def done(directory: Path, *arguments: str, **environment: str) -> str:
    """Run a command on the cluster; return what it printed."""
    ended = run_in(directory, *arguments, **CLUSTER, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def on_a_cluster(project_copy: Path) -> Iterator[Path]:
    """Have the tables of the cluster distributed, with a link in them before, and undo it."""
    shutil.copy(on_citus.__file__, project_copy)
    # First, as migrate refuses tables that a run before has left distributed.
    done(project_copy, "manage.py", "distribute", "--undo")
    done(project_copy, "manage.py", "migrate")
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
    how, _ = TABLES[operation][name]
    key = f"{operation[:3]}-{name}"[:20]
    found = json.loads(done(on_a_cluster, "on_citus.py", operation, name, key))
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
    done(on_a_cluster, "manage.py", "roll_up")


@needs_a_cluster
def test_many_links_of_a_shard_are_rolled_up_together(on_a_cluster: Path) -> None:
    found = json.loads(done(on_a_cluster, "on_citus.py", "many"))
    assert found["days"] == 500
    assert found["tasks"] == [1]
    assert found["statements"] <= 2 * 32  # of each shard a WITH that deletes, and an INSERT


@needs_a_cluster
def test_hits_are_collected_by_key_and_node(on_a_cluster: Path) -> None:
    found = json.loads(done(on_a_cluster, "on_citus.py", "collect"))
    assert found["hits"] == [on_citus.DUE] * 8
    assert found["visits"] == [on_citus.DUE // 2] * 16
    assert None not in found["places"]


@needs_a_cluster
def test_a_page_about_one_link_is_one_nodes_work(on_a_cluster: Path) -> None:
    for page, (status, tasks) in json.loads(done(on_a_cluster, "on_citus.py", "pages")).items():
        assert (status in (200, 302, 303), tasks) == (True, [1]), page


@needs_a_cluster
def test_the_checks_on_a_cluster(on_a_cluster: Path) -> None:
    """A role's lock_timeout reaches the workers; a service with DATABASE_CITUS=off is refused."""
    limited, unlimited = json.loads(done(on_a_cluster, "on_citus.py", "limits"))
    assert (limited, len(unlimited)) == ([], 1)
    check = ("manage.py", "check", "--database", "default")
    done(on_a_cluster, *check)
    ended = run_in(on_a_cluster, *check, **{**CLUSTER, "DATABASE_CITUS": "off"})
    assert ended.returncode == 1
    assert "project.E009" in ended.stderr


@needs_a_cluster
def test_a_walk_through_the_service_on_a_cluster(on_a_cluster: Path) -> None:
    """What is wrong is told by step."""
    shutil.copy(citus_walk.__file__, on_a_cluster)
    wrong = json.loads(done(on_a_cluster, "citus_walk.py"))
    assert not wrong, "\n".join(wrong.values())
