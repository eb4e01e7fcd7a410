"""What only a cluster can say: these tests take one, named by CITUS_URL; one runs without it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from project.citus_strategies import SINGLE_SHARD, TABLES, UNKNOWN
from project.tests import citus_walk, on_citus
from project.tests.conftest import run_in
from project.tests.test_citus_strategies import COUNTING, MAKING

# Of three links at four times: sixty referrers, and one value of each other dimension.
ROLLED_UP = 3 * 4 * (60 + 4)
pytestmark = pytest.mark.django_db


@pytest.mark.exhaustive
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
CLUSTER = {
    "DATABASE_URL": os.environ.get("CITUS_URL", ""),
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
