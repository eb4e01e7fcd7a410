"""What PostgreSQL puts between a written column and other rows: found with and without reduction.

Process 1 gives a value up, and process 2 gives it to another row. The second is refused if it is
earlier than the first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from django.db import IntegrityError, OperationalError

from pginterleave import Outcome
from pginterleave.sql.rows_touched import Tables

from .counter import explore_both, sql, transact
from .test_reduction import some_violate

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE interleave_parent (id int PRIMARY KEY, code text UNIQUE, title text,
        slug text GENERATED ALWAYS AS (lower(title)) STORED UNIQUE)
"""
GIVE_UP = "UPDATE interleave_doc SET {column} = 'new' WHERE id = 1"
TAKE = "UPDATE interleave_doc SET {column} = 'old' WHERE id = 2"


@contextmanager
def make_table(columns: str, *more: str) -> Iterator[None]:
    sql(f"CREATE TABLE interleave_doc (id int PRIMARY KEY, {columns})")
    try:
        for statement in more:
            sql(statement)
        yield
    finally:
        sql("DROP TABLE interleave_doc CASCADE")


def set_up(column: str, values: tuple[str, str | None]) -> None:
    sql("DELETE FROM interleave_doc")
    sql("DELETE FROM interleave_parent")
    sql(
        "INSERT INTO interleave_parent SELECT n, code, code FROM (VALUES (1, 'old'), (2, 'second'),"
        " (3, 'new')) AS parents (n, code)"
    )
    column = column.replace("%", "%%")
    sql(f"INSERT INTO interleave_doc (id, {column}) VALUES (1, %s), (2, %s)", *values)


def is_done(statement: str) -> bool:
    try:
        sql(statement)
    except (IntegrityError, OperationalError):  # it is refused, or busy
        return False
    return True


def refuse(outcomes: list[Outcome]) -> str:
    return "" if outcomes[1].returned else "process 2 is refused"


def check(
    columns: str,
    *more: str,
    column: str = "title",
    give_up: str = GIVE_UP,
    take: str = TAKE,
    values: tuple[str, str | None] = ("old", "second"),
) -> None:
    """Check that the same violations are found with and without reduction."""
    processes = [partial(is_done, text.format(column=column)) for text in (give_up, take)]
    with make_table(columns, *more):
        setup = partial(set_up, column, values)
        some_violate(*processes, invariant=refuse, setup=setup)


SLUG = "title text, slug text GENERATED ALWAYS AS (lower(title)) STORED"
NAMES = ["e-mail", "user name", "Straße", 'he said "x"', "Title", "set", "values", "100%", "a.b"]


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ("title text UNIQUE", ""),
        ("title text UNIQUE NULLS NOT DISTINCT", ""),
        ("title text, author int DEFAULT 7, UNIQUE (author, title)", ""),
        (f"{SLUG} UNIQUE", ""),
        ("title text, author int DEFAULT 7, slug text GENERATED ALWAYS AS (title || author::text)"
         " STORED UNIQUE", ""),
        ("title text", "CREATE UNIQUE INDEX ON interleave_doc (lower(title))"),
        (SLUG, "CREATE UNIQUE INDEX ON interleave_doc ((slug || '!'))"),
        ("title text UNIQUE DEFERRABLE INITIALLY IMMEDIATE", ""),
        ("title text UNIQUE DEFERRABLE INITIALLY DEFERRED", ""),
        ("title text, EXCLUDE USING btree (title WITH =)", ""),
        ("title text, EXCLUDE USING btree (lower(title) WITH =)", ""),
        (f"{SLUG}, EXCLUDE USING btree (slug WITH =)", ""),
    ],
)  # fmt: skip
def test_what_makes_a_value_unique(columns: str, more: str) -> None:
    check(columns, *filter(None, [more]))


LISTED = "listed bool GENERATED ALWAYS AS (active IS NOT FALSE) STORED"


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ("active bool", "CREATE UNIQUE INDEX ON interleave_doc (author) WHERE active"),
        (f"active bool, {LISTED}", "CREATE UNIQUE INDEX ON interleave_doc (author) WHERE listed"),
        ("active bool, EXCLUDE USING btree (author WITH =) WHERE (active)", "SELECT 1"),
    ],
)
def test_two_rows_with_one_value_in_a_column_with_a_partial_index(columns: str, more: str) -> None:
    write = "UPDATE interleave_doc SET active = {} WHERE id = {}"
    texts = {"give_up": write.format(False, 1), "take": write.format(True, 2)}
    check(f"author int DEFAULT 7, {columns}", more, column="active", values=("t", "f"), **texts)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_compared_as_the_catalogue_has_it(name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    check(f"{quoted} text UNIQUE", column=quoted)
    slug = f"slug text GENERATED ALWAYS AS (lower({quoted})) STORED UNIQUE"
    check(f"{quoted} text, {slug}", column=quoted)


@pytest.mark.parametrize(("column", "name"), [("ÄÖ", '"ÄÖ"'), ("TITLE", "title"), ("set", "set")])
def test_a_name_without_quotes(column: str, name: str) -> None:
    check(f"{name} text UNIQUE", column=column)


def test_an_index_on_the_whole_row() -> None:
    index = "CREATE UNIQUE INDEX ON interleave_doc ((true)) WHERE interleave_doc IS NOT NULL"
    give_up = "UPDATE interleave_doc SET title = NULL WHERE id = 1"
    check("title text", index, give_up=give_up, values=("old", None))


@pytest.fixture
def any_case() -> Iterator[str]:
    """Yield the name of a collation in which capitals could be equal.

    Not every PostgreSQL has ICU, so one of libc stands for a collation of this kind.
    """
    sql('CREATE COLLATION interleave_any_case FROM "C"')
    yield "interleave_any_case"
    sql("DROP COLLATION interleave_any_case")


def test_a_unique_column_in_which_capitals_are_equal_names_no_row(any_case: str) -> None:
    by_value = "UPDATE interleave_doc SET n = 1 WHERE {} = '1'"
    with make_table(f"title text COLLATE {any_case} UNIQUE, name text UNIQUE, n int"):
        for is_deterministic in (True, False):
            update = "UPDATE pg_collation SET collisdeterministic = %s WHERE collname = %s"
            sql(update, is_deterministic, any_case)
            tables = Tables()
            tables.learn(sql)
            assert bool(tables.find_row(by_value.format("title"), None)) is is_deterministic
            assert tables.find_row(by_value.format("name"), None)


def test_two_columns_that_differ_in_capitals() -> None:
    """A row is named by the unique one; the other one may name several rows."""
    both = "UPDATE interleave_doc SET n = n + 1 WHERE title = 'second'"
    second = "UPDATE interleave_doc SET n = 7 WHERE \"Title\" = 'second' AND n = 0"
    processes = [partial(sql, both), partial(sql, second)]
    with make_table("title text DEFAULT 'second', \"Title\" text UNIQUE, n int DEFAULT 0"):
        some_violate(
            *processes,
            setup=partial(set_up, '"Title"', ("old", "second")),
            invariant=lambda _: "8" if sql("SELECT 1 FROM interleave_doc WHERE n = 8") else "",
        )


@pytest.mark.parametrize(
    ("give_up", "take"),
    [
        ("DELETE FROM interleave_doc WHERE id = 1", TAKE),
        ("DELETE FROM interleave_doc WHERE title = 'old'", TAKE),
        (GIVE_UP, "INSERT INTO interleave_doc (id, title) VALUES (3, 'old')"),
        # The row is named by what another row becomes.
        ("UPDATE interleave_doc SET title = 'new' WHERE slug = 'old'", TAKE),
        ("DELETE FROM interleave_doc WHERE slug = 'old'", TAKE),
    ],
)
def test_a_row_that_gives_its_value_up(give_up: str, take: str) -> None:
    check(f"{SLUG} UNIQUE", give_up=give_up, take=take)


REFERENCE = "REFERENCES interleave_parent"


def test_a_wait_for_a_deleted_row_whose_value_another_row_gets() -> None:
    """Who waits finds no row, and who comes later finds the other one."""
    gives = transact("DELETE FROM interleave_doc WHERE title = 'old'", TAKE.format(column="title"))
    finds = partial(sql, "UPDATE interleave_doc SET n = 1 WHERE title = 'old' RETURNING n")
    with make_table("title text UNIQUE, n int"):
        some_violate(
            gives,
            finds,
            setup=partial(set_up, "title", ("old", "second")),
            invariant=lambda outcomes: "" if outcomes[1].returned else "no row is found",
        )


FREE = "DELETE FROM interleave_parent WHERE code = 'old'"


@pytest.mark.parametrize(
    ("columns", "give_up"),
    [
        (f"title text {REFERENCE} (code)", FREE),
        (f"title text {REFERENCE} (code) DEFERRABLE INITIALLY DEFERRED", FREE),
        (f"title text {REFERENCE} (code)", "UPDATE interleave_parent SET code = 'w' WHERE id = 1"),
        (f"title text {REFERENCE} (slug)", "UPDATE interleave_parent SET title = 'w' WHERE id = 1"),
        (f"{SLUG} {REFERENCE} (code)", FREE),
    ],
)
def test_a_column_that_refers_to_another(columns: str, give_up: str) -> None:
    check(columns, give_up=give_up, values=("new", "second"))


def test_a_column_that_refers_to_a_row_locks_it() -> None:
    lock = "SELECT 1 FROM interleave_parent WHERE code = 'old' FOR UPDATE NOWAIT"
    check(f"title text {REFERENCE} (code)", give_up=TAKE, take=lock, values=("new", "second"))


SEQUENCE = "interleave_doc_number_seq"
NUMBERS = [
    "serial",
    "int GENERATED ALWAYS AS IDENTITY",
    f"int DEFAULT nextval('{SEQUENCE}'::text)",
    "interleave_number",  # a domain with that default
]


@contextmanager
def make_numbered_tables(kind: str) -> Iterator[None]:
    if kind in NUMBERS[2:]:
        sql(f"CREATE SEQUENCE {SEQUENCE}")
        sql(f"CREATE DOMAIN interleave_number AS int DEFAULT nextval('{SEQUENCE}')")
    try:
        with make_table(f"number {kind}"):
            sql(f"CREATE TABLE interleave_other (id int, number int DEFAULT nextval('{SEQUENCE}'))")
            yield
    finally:
        sql("DROP TABLE IF EXISTS interleave_other CASCADE")
        sql(f"DROP SEQUENCE IF EXISTS {SEQUENCE} CASCADE; DROP DOMAIN IF EXISTS interleave_number")


def set_up_numbers() -> None:
    sql("DELETE FROM interleave_other")
    sql("DELETE FROM interleave_doc")
    sql("INSERT INTO interleave_doc VALUES (1), (2)")


def find_order(rows: str) -> str:
    ((first, second),) = sql(rows)
    return "" if first < second else "the second has the lower number"


@pytest.mark.parametrize("kind", NUMBERS)
def test_two_tables_with_numbers_of_one_sequence(kind: str) -> None:
    rows = "SELECT interleave_doc.number, interleave_other.number FROM interleave_doc"
    rows += " JOIN interleave_other USING (id)"
    inserts = [f"INSERT INTO interleave_{table} (id) VALUES (3)" for table in ("doc", "other")]
    with make_numbered_tables(kind):
        processes = [partial(sql, insert) for insert in inserts]
        some_violate(*processes, setup=set_up_numbers, invariant=lambda _: find_order(rows))


@pytest.mark.parametrize("kind", NUMBERS)
def test_two_rows_that_are_given_a_number_of_the_sequence(kind: str) -> None:
    rows = "SELECT a.number, b.number FROM interleave_doc a, interleave_doc b WHERE a.id < b.id"
    updates = [f"UPDATE interleave_doc SET number = DEFAULT WHERE id = {row}" for row in (1, 2)]
    with make_numbered_tables(kind):
        processes = [partial(sql, update) for update in updates]
        some_violate(*processes, setup=set_up_numbers, invariant=lambda _: find_order(rows))


COPY_NEW = """
    CREATE FUNCTION interleave_copy() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN UPDATE interleave_parent SET title = NEW.title || '!' WHERE id = 1;
        RETURN NEW; END $$;
    CREATE TRIGGER copy_title BEFORE UPDATE OF title ON interleave_doc FOR EACH ROW
        WHEN (NEW.title <> OLD.title) EXECUTE FUNCTION interleave_copy()
"""


COPY_BY_RULE = """
    CREATE RULE copy_title AS ON UPDATE TO interleave_doc DO ALSO
        UPDATE interleave_parent SET title = NEW.title || '!' WHERE id = 1
"""


@pytest.mark.parametrize("copy", [COPY_NEW, COPY_BY_RULE])
def test_a_trigger_of_one_column_with_a_condition_and_a_rule(copy: str) -> None:
    """The processes write two rows, and the trigger or rule writes one row of another table."""
    wrong = "SELECT title FROM interleave_parent WHERE title = 'new!'"
    try:
        with make_table("title text", copy):
            some_violate(
                *(partial(is_done, text.format(column="title")) for text in (GIVE_UP, TAKE)),
                setup=partial(set_up, "title", ("first", "second")),
                invariant=lambda _: "; ".join(title for (title,) in sql(wrong)),
            )
    finally:
        sql("DROP FUNCTION IF EXISTS interleave_copy")


def test_a_policy() -> None:
    """What a policy reads of another table is not known, so every order runs."""
    policy = "CREATE POLICY p ON interleave_doc USING (id IN (SELECT id FROM interleave_parent))"
    with make_table("title text", "ALTER TABLE interleave_doc ENABLE ROW LEVEL SECURITY", policy):
        every, reduced = explore_both(
            *(partial(is_done, text.format(column="title")) for text in (GIVE_UP, TAKE)),
            setup=partial(set_up, "title", ("first", "second")),
        )
        assert every.orders == reduced.orders


def test_a_virtual_column_names_no_row() -> None:
    ((version,),) = sql("SELECT current_setting('server_version_num')::int")
    if version < 180000:
        pytest.skip("PostgreSQL has virtual columns from version 18 on")
    upper = "title text UNIQUE, shown text GENERATED ALWAYS AS (upper(title)) VIRTUAL"
    check(upper, give_up="UPDATE interleave_doc SET title = 'new' WHERE shown = 'OLD'")
