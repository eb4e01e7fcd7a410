"""What a rollback and an error leave of a transaction, as the reduced search concludes it."""

from types import SimpleNamespace
from typing import Any

import pytest

from pginterleave.effects import GLOBAL, LOCAL, Claim, Effect, claim, effect
from pginterleave.statements import kind


@pytest.mark.parametrize(
    ("earlier", "sql", "expected"),
    [
        (["UPDATE t SET x = 1"], "ROLLBACK", LOCAL),
        (["SAVEPOINT a", "UPDATE t SET x = 1"], "ROLLBACK", GLOBAL),
        (["SAVEPOINT a", "UPDATE t SET x = 1"], "ROLLBACK TO a", LOCAL),
        (["SAVEPOINT a", "SAVEPOINT b", "UPDATE t SET x = 1"], "ROLLBACK TO a", GLOBAL),
        # Of two of one name, the second may be released: then it is the first that is meant.
        (
            ["SAVEPOINT a", "UPDATE t SET x = 1", "SAVEPOINT a", "RELEASE a"],
            "ROLLBACK TO a",
            GLOBAL,
        ),
        (["SELECT 1; SAVEPOINT a"], "ROLLBACK", GLOBAL),
    ],
)
def test_what_a_rollback_undoes_after_an_error(
    earlier: list[str], sql: str, expected: Effect
) -> None:
    taken, (step,) = (
        [SimpleNamespace(kind=kind(each), sql=each, params=None) for each in statements]
        for statements in (earlier, [sql])
    )
    options: dict[str, Any] = {"serializable": False, "commits": False}
    assert effect(step, taken, failed=True, **options) == expected
    assert effect(step, taken, failed=False, **options) == GLOBAL


def test_after_an_error_no_statement_of_the_transaction_waits() -> None:
    """As after a deadlock that is caught inside: PostgreSQL refuses the next statement at once."""
    failed: Any = SimpleNamespace(kind="UPDATE", error="DeadlockDetected")
    step: Any = SimpleNamespace(sql="UPDATE counter SET n = 1 WHERE id = 1", params=None)
    write: Any = SimpleNamespace(kind="write")
    tables: Any = None  # which is not asked
    assert claim(step, write, [(failed, write)], tables) == Claim()
