"""What the text of a statement tells: whether its COMMIT is a step, and whether it only reads."""

import pytest

from pginterleave import statements
from pginterleave.catalogue import Catalogue


@pytest.mark.parametrize(
    "sql",
    [
        "GRANT SELECT ON t TO PUBLIC",
        "REFRESH MATERIALIZED VIEW v",
        "EXPLAIN (ANALYZE) INSERT INTO t VALUES (1)",
    ],
)
def test_what_takes_effect_with_its_commit(sql: str) -> None:
    assert statements.commits_apart(sql)
    assert not statements.commits_unseen(sql)


def test_what_commits_more_than_once() -> None:
    assert statements.commits_unseen("CREATE INDEX CONCURRENTLY i ON t (a)")
    assert not statements.commits_unseen("SELECT 'CONCURRENTLY'")


def test_a_read_of_the_clock_keeps_its_place() -> None:
    assert statements.only_reads("SELECT hits, 'now' FROM t")
    assert not statements.only_reads("SELECT now()")
    assert not statements.only_reads("SELECT CURRENT_TIMESTAMP")


def test_a_name_of_several_words() -> None:
    catalogue = Catalogue()
    catalogue.learn(lambda _: [("old orders", "relation", "")])
    assert not statements.only_reads('SELECT 1 FROM "old orders"', catalogue.special)
    assert statements.only_reads("SELECT 1 FROM t", catalogue.special)
