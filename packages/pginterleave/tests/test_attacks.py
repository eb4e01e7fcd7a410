"""Races that no statement's text shows: the result names each of them as a limit."""

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import is_psycopg3

from pginterleave import Outcome

from . import counter
from .counter import Counter, explore_all, replay, sql, transact

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """  -- objects that call a function when a statement uses them
CREATE SCHEMA attack;
SET search_path TO attack, public;
CREATE FUNCTION add_once(number int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM interleave_counter WHERE hits = 7) THEN
        INSERT INTO interleave_counter VALUES (number, number, 7);
    END IF; RETURN number; END $$;
CREATE FUNCTION add_quietly(number int) RETURNS int LANGUAGE sql IMMUTABLE
    AS 'SELECT attack.add_once($1)';
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE FUNCTION step(int, int) RETURNS int LANGUAGE sql AS 'SELECT attack.add_once($2)';
CREATE FUNCTION is_small(int) RETURNS boolean LANGUAGE sql AS 'SELECT attack.add_once($1) > 0';
CREATE OPERATOR +! (RIGHTARG = int, FUNCTION = add_once);
CREATE AGGREGATE add_all (int) (SFUNC = step, STYPE = int, INITCOND = 0);
CREATE TYPE wrapped AS (inner_value int);
CREATE FUNCTION unwrap(wrapped) RETURNS int LANGUAGE sql
    AS 'SELECT attack.add_once($1.inner_value)';
CREATE CAST (wrapped AS int) WITH FUNCTION unwrap AS IMPLICIT;
CREATE DOMAIN small AS int CHECK (is_small(VALUE));
CREATE TABLE with_domain (id small);
CREATE DOMAIN given AS text DEFAULT add_once(8);
CREATE TABLE with_given (id given, name text);
CREATE TABLE with_cast (id wrapped);
CREATE TABLE with_default (id int DEFAULT add_once(8), name text);
CREATE TABLE with_generated (id int, twice int GENERATED ALWAYS AS (add_quietly(id)) STORED);
CREATE TABLE with_check (id int CHECK (is_small(id)));
CREATE TABLE with_index (id int);
CREATE INDEX ON with_index (add_quietly(id));
CREATE TABLE with_rule (id int);
CREATE RULE also AS ON INSERT TO with_rule DO ALSO SELECT add_once(new.id);
CREATE VIEW shown AS SELECT add_once(pg_backend_pid());
CREATE VIEW stacked AS SELECT * FROM shown;
CREATE TABLE with_trigger (id int PRIMARY KEY);
CREATE TRIGGER fired BEFORE INSERT OR DELETE ON with_trigger
    FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE VIEW over_trigger AS SELECT id FROM with_trigger;
CREATE TABLE parted (id int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TRIGGER of_part BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE);
CREATE TRIGGER of_child BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TABLE with_clock (id int, made timestamptz DEFAULT now());
CREATE TABLE other_parent (id int PRIMARY KEY);
CREATE TABLE other_child (id int REFERENCES other_parent);
CREATE TRIGGER of_truncate BEFORE TRUNCATE ON other_child EXECUTE FUNCTION nothing();
CREATE MATERIALIZED VIEW refreshed AS SELECT 1;
CREATE FUNCTION noted() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE EVENT TRIGGER defined ON ddl_command_end EXECUTE FUNCTION noted();
CREATE TABLE with_check_of_clock (made timestamptz CHECK (made <= now()));
CREATE VIEW clock AS SELECT LOCALTIMESTAMP;
CREATE TABLE with_policy (made timestamptz);
CREATE POLICY of_clock ON with_policy USING (made < 'now'::text::timestamptz);
CREATE TABLE "old orders" (id int DEFAULT add_once(8), name text);
RESET search_path;
"""
CLOCK = "which transaction began first, as their clocks tell"
FUNCTION = "the statements in the function add_once are one step"
USES = "the function add_once is part of the step that uses "

CALLS = {
    "SELECT add_once(8)": FUNCTION,
    """SELECT hits AS "it's", add_once(8) AS "o'clock" FROM interleave_counter""": FUNCTION,
    "TABLE shown": USES + "shown",
    "SELECT * FROM stacked": USES + "stacked",
    "VALUES (add_once(8))": FUNCTION,
    "SELECT +! 8": USES + "+!",
    "SELECT OPERATOR(attack.+!) 8": USES + "+!",
    "SELECT hits FROM interleave_counter ORDER BY +!hits": USES + "+!",
    "SELECT add_all(id) FROM interleave_counter": "the function step is part",
    "SELECT 1 + ROW(8)::wrapped": "the function unwrap is part",
    "SELECT 1 + id FROM with_cast": "the function unwrap is part",
    "SELECT 8::small": "the function is_small is part of the step that uses small",
    "INSERT INTO with_domain VALUES (8)": "the function is_small is part",
    "INSERT INTO with_given (name) VALUES ('a')": USES + "with_given",
    "INSERT INTO with_default (name) VALUES ('a')": USES + "with_default",
    'INSERT INTO "old orders" (name) VALUES (1)': USES + "old orders",
    "INSERT INTO with_generated VALUES (8)": "the function add_quietly is part",
    "INSERT INTO with_check VALUES (8)": "the function is_small is part",
    "INSERT INTO with_index VALUES (8)": "the function add_quietly is part",
    "INSERT INTO with_rule VALUES (8)": USES + "with_rule",
    "WITH made AS (INSERT INTO with_trigger VALUES (8)) SELECT 1": "the trigger fired is part",
    "EXPLAIN ANALYZE INSERT INTO with_trigger VALUES (8)": "the trigger fired is part",
    "PREPARE insert_one AS INSERT INTO with_trigger VALUES (8)": "the trigger fired is part",
    "INSERT INTO over_trigger VALUES (8)": "the trigger fired is part",
    "INSERT INTO parted VALUES (8)": "the trigger of_part is part",
    "DELETE FROM parent": "the trigger of_child is part",
    "TRUNCATE other_parent CASCADE": "the trigger of_truncate is part",
    "SELECT 1 INTO TEMP made": "the event trigger defined is part",
    "WITH a AS (SELECT 1) SELECT * INTO TEMP made FROM a": "the event trigger defined is part",
    "REFRESH MATERIALIZED VIEW refreshed": "the event trigger defined is part",
    "COPY (SELECT add_once(8)) TO STDOUT": FUNCTION,
    "DECLARE held CURSOR WITH HOLD FOR SELECT add_once(8)": FUNCTION,
    "CREATE TEMP TABLE made AS SELECT add_once(8)": FUNCTION,
    "SELECT query_to_xml('SELECT add_once(8)', true, true, '')": "in the function query_to_xml are",
    "DO $$ BEGIN PERFORM add_once(8); END $$": "the statements in DO are one step",
}

# Without a limit: a SELECT calls neither the default nor the trigger of a table.
PLAIN = [
    "SELECT * FROM with_default",
    "SELECT * FROM with_given",
    "SELECT * FROM with_trigger",
    "SELECT hits + 8 FROM parent",
    "DELETE FROM other_parent",
]


def send(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path TO attack, public")
        if not statement.startswith("COPY"):
            cursor.execute(statement)
        elif is_psycopg3:
            with cursor.copy(statement) as copy:
                copy.read()
        else:
            cursor.copy_expert(statement, io.StringIO())


def test_a_hidden_call_of_a_function_is_named() -> None:
    shown = {each: explore_all(partial(send, each)).limits for each in [*CALLS, *PLAIN]}
    wrong = {each: shown[each] for each in CALLS if CALLS[each] not in "; ".join(shown[each])}
    assert wrong == {}
    assert [shown[each] for each in PLAIN] == [()] * len(PLAIN)


def call_procedure(number: int) -> None:
    name: Any = "attack.add_once"
    with connection.cursor() as cursor:
        if is_psycopg3:  # reads a str as one name
            from psycopg import sql as names

            name = names.Identifier("attack", "add_once")
        cursor.callproc(name, [number])


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize(
    "send",
    [
        lambda number: sql(f"SELECT OPERATOR(attack.+!) {number}"),
        lambda number: sql("TABLE attack.shown"),
        call_procedure,
    ],
    ids=["operator", "view", "callproc"],
)
def test_the_commit_of_a_hidden_call_is_a_step(send: Callable[[int], object], reduce: bool) -> None:
    """Both check and then both insert, because the COMMIT is a separate step."""

    def only_one(outcomes: list[Outcome]) -> str:
        (rows,) = sql("SELECT count(*) FROM interleave_counter WHERE hits = 7")[0]
        return "" if rows == 1 else f"{rows} rows"

    processes = [partial(send, number) for number in (8, 9)]
    found = explore_all(*processes, invariant=only_one, reduce=reduce)
    assert (found.violating, found.schedules) == (4, 6)


DATED = "INSERT INTO attack.with_clock VALUES (1)"


@pytest.mark.parametrize(
    "statement",
    [
        (DATED,),
        ("INSERT INTO attack.with_check_of_clock VALUES (NULL)",),
        ("SELECT FROM attack.clock",),
        ("SELECT FROM attack.with_policy",),
        ("SELECT 'now'::timestamptz",),
        ("SELECT %s::timestamptz", "today"),
    ],
)
def test_the_clock_of_a_transaction_is_named(statement: tuple[str, ...]) -> None:
    """BEGIN is no step, so it is not explored which transaction began first."""

    @transaction.atomic
    def reads_then_dates() -> None:
        counter.hits()
        sql(*statement)

    assert CLOCK in explore_all(reads_then_dates, reduce=True).limits


def test_the_clock_of_a_transaction_matters_if_begin_is_sent_or_reads_are_reduced() -> None:
    def says_begin() -> None:
        sql("BEGIN")
        sql(DATED)

    assert explore_all(says_begin).limits == (CLOCK,)
    assert explore_all(transact("SELECT hits FROM interleave_counter", DATED)).limits == ()


@pytest.mark.skipif(is_psycopg3, reason="psycopg 3 takes no SQL for a parameter")
def test_a_call_in_a_parameter_of_psycopg2_is_seen() -> None:
    """psycopg2 does not quote AsIs, also within a list."""
    from psycopg2.extensions import AsIs

    add: Any = AsIs("attack.add_once(8)")
    sent: list[Callable[[Any], object]] = [
        lambda cursor: cursor.execute("SELECT %s", [add]),
        lambda cursor: cursor.execute("SELECT %(a)s", {"a": [add]}),
        lambda cursor: cursor.execute("SELECT 1 %s", [AsIs("FROM attack.shown")]),
        lambda cursor: cursor.executemany("SELECT %s", iter([[add]])),
        lambda cursor: cursor.callproc("lower", [AsIs("attack.add_once(8)::text")]),
    ]

    def process(send: Callable[[Any], object]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            send(cursor)

    for send in sent:
        assert "add_once" in "; ".join(explore_all(partial(process, send)).limits)
    locks = partial(sql, "SELECT 1 FROM interleave_counter WHERE id = 1 %s", AsIs("FOR UPDATE"))
    assert [each.kind for each in replay("11", locks).timeline] == ["SELECT", "COMMIT"]


def inserts_values() -> None:
    """Insert with psycopg2's helper, which sends bytes."""
    insert = "INSERT INTO interleave_counter SELECT * FROM (VALUES %s) AS v(id, key, hits)"
    with connection.cursor() as cursor:
        if is_psycopg3:
            cursor.execute(insert % "(7, 'c', 7)")
        else:
            from psycopg2.extras import execute_values

            execute_values(cursor, insert, [(7, "c", 7)])


def iterates() -> None:
    with transaction.atomic():
        list(Counter.objects.iterator(chunk_size=1))


@pytest.mark.parametrize("process", [inserts_values, iterates])
def test_a_statement_of_the_driver_for_django_is_seen(process: Callable[[], object]) -> None:
    found = explore_all(process, counter.hits, expected=())
    assert found.complete
    assert found.violating == 0
