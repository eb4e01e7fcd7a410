"""What a step touches, by its text: a row or a dependence that is missed here hides a race."""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from pginterleave.sql import rows_touched
from pginterleave.sql.dependent_steps import GLOBAL, LOCAL, Claim, find_claim, find_effect
from pginterleave.sql.rows_touched import EVERYWHERE, RowSet, Tables
from pginterleave.sql.statements import find_kind

TABLES = Tables()
CATALOGUE: dict[str, list[Any]] = {
    # Two schemas have a table "odd", so its name may mean either.
    rows_touched.TABLES: [(n, t, True, False) for n, t in enumerate(["t", "child", "odd", "odd"])],
    rows_touched.UNIQUE_COLUMNS: [
        (0, "id", "int4"),
        (0, "name", "text"),
        (0, "token", "uuid"),
        (2, "id", "int4"),
    ],
}
TABLES.learn(lambda query: CATALOGUE.get(query, []))
ROW = RowSet("t", "id", "1")
ADD = "UPDATE t SET n = n + 1 WHERE id = 1"
LOCK = "SELECT n FROM t WHERE id = 1 FOR UPDATE"
ONE_ROW = ["DELETE FROM public.t AS x WHERE ((x.id = '01') AND (n = 1 OR n = 2)) RETURNING n"]
ANY_ROW = [
    "UPDATE t SET n = 1 WHERE id = 1 AND n = 2 OR n = 3",
    "UPDATE t SET n = 1 WHERE CASE WHEN n = 1 AND id = 1 AND n = 2 THEN false ELSE true END",
    "UPDATE t SET n = 1 WHERE (n = 3) BETWEEN (n = 2) AND (id = 1)",
    "UPDATE t SET n = 1 WHERE id > 1",
    "UPDATE t SET n = 1 WHERE child.id = 1",
    "UPDATE t SET n = (SELECT max(n) FROM child) WHERE id = 1",
    r"""UPDATE t SET U&"\0069d" = 2 WHERE id = 1""",
    "UPDATE t SET name = '%s' WHERE id = %s",  # the driver counts both
    "SELECT n FROM t, child WHERE id = 1 FOR UPDATE",
    "SELECT n FROM t WHERE id = 1 AND n = 0 UNION TABLE child",
    "UPDATE odd SET n = 1 WHERE id = 1",
]


@pytest.mark.parametrize("sql", [*ONE_ROW, *ANY_ROW])
def test_whether_a_statement_is_about_one_row(sql: str) -> None:
    assert TABLES.find_row(sql, [1, 2]) == (ROW if sql in ONE_ROW else None)


def test_what_a_statement_touches() -> None:
    assert TABLES.find_touched("UPDATE odd SET n = 1", None) == ((RowSet("odd"),), EVERYWHERE)
    assert TABLES.find_touched("DELETE FROM t USING shown", None) == (EVERYWHERE, EVERYWHERE)
    by_token, token = "DELETE FROM t WHERE token = %s", uuid.UUID(int=10)
    assert TABLES.find_row(by_token, [token]) == TABLES.find_row(by_token, [str(token).upper()])


def take(*texts: str, rowcount: int = 1, **given: bool) -> list[Any]:
    """Return steps, each with its effect; the parameter of a step is 'now'."""
    options: Any = {"serializable": False, "commits": False, "failed": False, "tables": TABLES}
    options |= {"special_names": set(), "special_in_writes": {"fired"}, **given}
    taken: list[Any] = []
    for sql in texts:
        params = ["now"] if "%s" in sql else None
        step = SimpleNamespace(process=1, kind=find_kind(sql), sql=sql, params=params)
        step.rowcount = rowcount
        taken.append((step, find_effect(step, taken, **options)))
    return taken


EFFECTS = {
    "SELECT n FROM fired": "read",
    "SELECT n FROM t WHERE at < %s": "global",
    "SELECT xmin FROM t": "global",
    "SELECT 1 FROM pg_locks": "global",
    r'SELECT 1 FROM U&"\0066"': "global",
    "UPDATE t SET n = nextval('s')": "global",
    "UPDATE fired SET n = 1": "global",
    f"{ADD} | COMMIT AND CHAIN": "global",
    f"{ADD} | CLOSE": "global",  # which releases the locks of the session, too
    f"SET default_transaction_isolation TO 'repeatable read' | COMMIT | {LOCK}": "global",
}


@pytest.mark.parametrize("texts", EFFECTS)
def test_the_effect_of_a_step(texts: str) -> None:
    assert take(*texts.split(" | "))[-1][1].kind == EFFECTS[texts]
    assert take(ADD, commits=True)[-1][1] == GLOBAL


@pytest.mark.parametrize(
    ("texts", "is_local"),
    [
        ([ADD, "ROLLBACK"], True),
        (["SAVEPOINT a", ADD, "ROLLBACK"], False),
        (["SAVEPOINT a", ADD, "ROLLBACK TO a"], True),
        (["SAVEPOINT a", "SAVEPOINT b", ADD, "ROLLBACK TO a"], False),
        # The second savepoint of this name is released, so the name means the first.
        (["SAVEPOINT a", ADD, "SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"], False),
        (["SELECT 1; SAVEPOINT a", "ROLLBACK"], False),
    ],
)
def test_whether_an_error_has_undone_what_a_rollback_undoes(
    texts: list[str], is_local: bool
) -> None:
    assert (take(*texts, failed=True)[-1][1] == LOCAL) is is_local
    assert take(*texts)[-1][1] != LOCAL


@pytest.mark.parametrize(
    "end", ["UPDATE", "NO KEY UPDATE", "UPDATE NOWAIT", "UPDATE SKIP LOCKED", "SHARE"]
)
def test_which_row_locks_certainly_wait(end: str) -> None:
    [(step, effect)] = take(LOCK.replace("UPDATE", end))
    assert find_claim(step, effect, [], TABLES).row == (ROW if end.endswith("UPDATE") else None)
    assert bool(find_claim(step, GLOBAL, [(step, effect)], TABLES).locks) is (end != "SHARE")
    failed = SimpleNamespace(kind="UPDATE", error="DeadlockDetected")
    assert find_claim(step, effect, [(failed, effect)], TABLES) == Claim()


@pytest.mark.parametrize(
    ("texts", "is_harmless"),
    [
        (["SELECT pg_advisory_lock(1)", ADD], None),
        ([ADD, "UPDATE t SET id = 1 WHERE name = 'b'"], True),
        ([ADD, "UPDATE t SET id = 2 WHERE id = 1"], False),
    ],
)
def test_whether_a_wait_for_a_row_is_harmless(texts: list[str], is_harmless: bool | None) -> None:
    nothing: Any = None
    locks = find_claim(nothing, GLOBAL, take(*texts), TABLES).locks
    assert [lock.is_harmless for lock in locks[:1]] == [is_harmless] * (is_harmless is not None)
    assert find_claim(nothing, GLOBAL, take(*texts, rowcount=0), TABLES).locks == ()
