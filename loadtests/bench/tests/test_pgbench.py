"""pgbench sends the statements of a strategy."""

import pytest

from loadtests.bench import pgbench
from loadtests.bench.services import Database
from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.table import STRATEGIES, Verdict

pytestmark = pytest.mark.exhaustive
RESOLVING, CREATING = (
    [name for name, one in STRATEGIES[operation].items() if one.verdict is Verdict.RIGHT]
    for operation in ("resolving", "creating")
)


@pytest.mark.parametrize("name", RESOLVING)
def test_every_script_counts_hits_of_every_key(database: Database, name: str) -> None:
    for number in (1, 2, 3):
        operations.create("https://example.com/", key=f"k{number}")
    script = pgbench.resolving_script(STRATEGIES["resolving"][name].function)
    hits = {"k1": 0, "k2": 0}
    for _ in range(10):  # a machine with other work may make few hits in a second
        if not all((hits["k1"], hits["k2"])):
            assert pgbench.run(database, script, "random", 2, 2, 1)
            links = ShortUrl.objects.annotate(total_hits=TOTAL_HITS)
            hits = dict(links.values_list("key", "total_hits"))
    assert hits["k1"] > 0
    assert hits["k2"] > 0
    assert hits["k3"] == 0


@pytest.mark.parametrize("name", CREATING)
def test_every_script_creates_links(database: Database, name: str) -> None:
    script = pgbench.creating_script(STRATEGIES["creating"][name].function)
    assert pgbench.run(database, script, "new", 2, 2, 1)
