"""Small random programs: a reduced search finds the same as the search of all schedules."""

import random
from collections import Counter as Multiset
from collections.abc import Iterable, Set
from contextlib import nullcontext
from functools import partial
from math import factorial, prod
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from pginterleave import Exploration, Outcome

from . import counter
from .counter import explore_all, sql

TABLES = """  -- one that refers to the counters, and one that does not
    CREATE TABLE interleave_item (id serial PRIMARY KEY, n int,
        counter int REFERENCES interleave_counter ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE interleave_other (id int PRIMARY KEY, n int);
    CREATE TABLE "interleave odd" (id int PRIMARY KEY, title text, "e-mail" text UNIQUE,
        active bool, "Straße" int DEFAULT 7, n int DEFAULT 0,
        slug text GENERATED ALWAYS AS (lower(title)) STORED UNIQUE,
        listed bool GENERATED ALWAYS AS (active IS TRUE) STORED);
    CREATE UNIQUE INDEX ON "interleave odd" ("Straße") WHERE listed
"""


def setup() -> None:
    counter.setup()
    sql("DELETE FROM interleave_other")
    sql("INSERT INTO interleave_other VALUES (1, 1), (2, 2)")
    sql('DELETE FROM "interleave odd"')
    sql(
        'INSERT INTO "interleave odd" (id, title, "e-mail", active)'
        " VALUES (1, 'A', 'a', true), (2, 'B', 'b', false)"
    )


Program = tuple[str, ...]  # names of statements, each followed by a row; "atomic" stands in front
End = tuple[object, ...]  # the last rows, and the outcomes of the processes

UPDATE = "UPDATE interleave_counter SET hits = "
ROW_LOCK = "SELECT hits FROM interleave_counter WHERE key = %(key)s FOR UPDATE"
# The parameter is the row, and {seen} is the value that was read last.
STATEMENTS = {
    "read": "SELECT hits FROM interleave_counter WHERE key = %(key)s",
    "lock": ROW_LOCK,
    "skip": f"{ROW_LOCK} SKIP LOCKED",
    "add": UPDATE + "hits + 1 WHERE key = %(key)s",
    "double": UPDATE + "2 * hits WHERE key = %(key)s",
    "write": UPDATE + "{seen} + 1 WHERE key = %(key)s",
    "swap": UPDATE + "{seen} + 1 WHERE key = %(key)s AND hits = {seen} RETURNING 9",
    "guard": UPDATE + "hits + 3 WHERE key = %(key)s AND hits < 2 RETURNING 9",
    "delete": "DELETE FROM interleave_counter WHERE key = %(key)s AND hits > 1 RETURNING 9",
    "all": UPDATE + "(SELECT sum(hits) + 1 FROM interleave_counter) WHERE key = %(key)s",
}
# By the primary key, on other tables, and on values that other rows and tables depend on.
MORE = {
    "read id": "SELECT hits FROM interleave_counter WHERE id = %(id)s",
    "lock id": "SELECT hits FROM interleave_counter WHERE id = %(id)s LIMIT 21 FOR UPDATE",
    "nowait": f"{ROW_LOCK} NOWAIT",
    "free": "SELECT hits FROM interleave_counter WHERE (id = %(id)s AND hits < 2) FOR UPDATE",
    "add id": UPDATE + "hits + 1 WHERE interleave_counter.id = %(id)s",
    "save": "UPDATE interleave_counter SET key = %(key)s, hits = {seen} + 1 WHERE id = %(id)s",
    "rename": "UPDATE interleave_counter SET key = 'c' WHERE key = %(key)s",
    "take name": "UPDATE interleave_counter SET key = %(key)s WHERE key = 'c' RETURNING 9",
    "remove": "DELETE FROM interleave_counter WHERE id = %(id)s RETURNING 9",
    "insert": "INSERT INTO interleave_counter VALUES (3, 'c', {seen})",
    "again": "INSERT INTO interleave_counter VALUES (%(id)s, %(key)s, 5)",
    "upsert": "INSERT INTO interleave_counter AS it VALUES (%(id)s, %(key)s, 5)"
    " ON CONFLICT (id) DO UPDATE SET hits = it.hits + 1 RETURNING hits",
    "item": "INSERT INTO interleave_item (counter, n) VALUES (%(id)s, {seen})",
    "items": "SELECT count(*) FROM interleave_item WHERE counter = %(id)s",
    "clear": "DELETE FROM interleave_item WHERE counter = %(id)s",
    "total": UPDATE + "(SELECT count(*) FROM interleave_item) WHERE id = %(id)s",
    "other": "UPDATE interleave_other SET n = n + 1 WHERE id = %(id)s",
    "others": "SELECT sum(n) FROM interleave_other",
    "lock other": "SELECT n FROM interleave_other WHERE id = %(id)s FOR UPDATE",
    "share": "SELECT n FROM interleave_other WHERE id = %(id)s FOR SHARE",
    "copy": "UPDATE interleave_other SET n = (SELECT sum(hits) FROM interleave_counter)"
    " WHERE id = %(id)s",
    "point": "SAVEPOINT p",
    "back": "ROLLBACK TO SAVEPOINT p",
    "table": "LOCK TABLE interleave_other IN EXCLUSIVE MODE",
}
# On what PostgreSQL makes unique by a generated column, a predicate, or a name of several words.
UPDATE_ODD = 'UPDATE "interleave odd" SET '
ODD = {
    "title": UPDATE_ODD + "title = %(key)s WHERE id = 1",
    "other title": UPDATE_ODD + "title = 'C' WHERE id = %(id)s",
    "add to slug": UPDATE_ODD + "n = n + 1 WHERE slug = %(key)s RETURNING n",
    "mail": UPDATE_ODD + '"e-mail" = %(key)s WHERE id = 2',
    "other mail": UPDATE_ODD + """"e-mail" = 'c' WHERE id = %(id)s""",
    "activate": UPDATE_ODD + "active = true WHERE id = %(id)s",
    "deactivate": UPDATE_ODD + "active = false WHERE id = %(id)s",
    "read mail": 'SELECT n FROM "interleave odd" WHERE "e-mail" = %(key)s',
    "delete slug": 'DELETE FROM "interleave odd" WHERE slug = %(key)s RETURNING 9',
    "insert odd": """INSERT INTO "interleave odd" (id, title, "e-mail") VALUES (3, 'C', 'c')""",
}
READS = {
    "read",
    "read id",
    "items",
    "others",
    "read mail",
    "point",
    "back",
    "table",
}  # have no COMMIT
MAX_SCHEDULES = 150  # of the programs that are explored


def run_program(program: Program) -> tuple[int, ...]:
    returned = [1]
    with transaction.atomic() if "atomic" in program else nullcontext():
        for name, key in (each.rsplit(maxsplit=1) for each in program if each != "atomic"):
            statement = (STATEMENTS | MORE | ODD)[name].format(seen=returned[-1] or 0)
            with connection.cursor() as cursor:
                cursor.execute(statement, {"key": key, "id": "ab".index(key) + 1})
                rows = cursor.fetchall() if cursor.description else []
            returned.extend(hits for (hits,) in rows)
    return tuple(returned)


def draw_programs(chance: random.Random, known: Iterable[str]) -> list[Program]:
    """Return the programs of two or three processes; some programs are the same."""
    while True:
        programs: list[Program] = []
        for _ in range(chance.choice([2, 3])):
            names = chance.choices([*known], k=chance.randint(1, 3))
            statements = [f"{name} {chance.choice('aab')}" for name in names]
            new = (*chance.choice([(), ("atomic",)]), *statements)
            programs.append(chance.choice([new, *programs]))
        steps = [count_steps(program) for program in programs]
        schedules = factorial(sum(steps)) / prod(map(factorial, steps))
        if MAX_SCHEDULES / 10 <= schedules <= MAX_SCHEDULES:
            return programs


def count_steps(program: Program) -> int:
    if "atomic" in program:
        return len(program)
    return sum(1 if each[:-2] in READS else 2 for each in program)


def read_end(outcomes: list[Outcome], programs: list[Program]) -> End:
    rows = sql("SELECT key, hits FROM interleave_counter ORDER BY key")
    rows += sql("SELECT counter, n FROM interleave_item ORDER BY 1, 2")
    rows += sql("SELECT n FROM interleave_other ORDER BY id")
    rows += sql('SELECT id, slug, "e-mail", active, n FROM "interleave odd" ORDER BY id')
    ends = (
        (program, outcome.returned, type(outcome.raised).__name__)
        for program, outcome in zip(programs, outcomes, strict=True)
    )
    return tuple(rows), *ends


@pytest.mark.usefixtures("tables")
@pytest.mark.big
@pytest.mark.parametrize("seed", range(24))
def test_reduced_searches_find_the_same(seed: int) -> None:
    chance = random.Random(seed)
    # One in three has the first statements, one has all others, and one those on odd columns.
    programs = draw_programs(chance, [STATEMENTS, STATEMENTS | MORE, ODD][seed % 3])
    processes = [partial(run_program, program) for program in programs]
    level = chance.choice(["", "", "", "repeatable read"])

    def explore(wrong: Set[End], ends: Multiset[End], **options: Any) -> Exploration:
        def invariant(outcomes: list[Outcome]) -> str:
            reached = read_end(outcomes, programs)
            ends[reached] += 1
            return "violated" if reached in wrong else ""

        race: dict[str, Any] = {"setup": setup, "invariant": invariant, "expected": DatabaseError}
        return explore_all(*processes, **race, isolation_level=level, **options)

    every: Multiset[End] = Multiset()
    explore(set(), every).assert_safe()
    wrong = {*chance.sample(sorted(every, key=repr), len(every) // 2 + 1)}
    violating = sum(every[reached] for reached in wrong)
    counterexamples = []
    for reduce in (False, True):
        ends: Multiset[End] = Multiset()
        found = explore(wrong, ends, reduce=reduce)
        counts = (found.schedules, found.violating, found.truncated)
        assert counts == (every.total(), violating, "")
        assert ends.keys() == every.keys()
        assert found.counterexample
        counterexamples.append(found.counterexample.order)
    assert counterexamples[0] == counterexamples[1]
