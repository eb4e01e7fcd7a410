"""Rows are put back exactly, in the tables that were written, and so are Django's caches."""

from functools import partial

import pytest
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.test import override_settings

from pginterleave import CannotExplore, NotDeterministic, Outcome
from pginterleave.django.database import DjangoDatabase
from pginterleave.processes import rows
from pginterleave.processes.rows import Rows
from pginterleave.pytest_plugin import Interleave

from . import counter
from .counter import Counter, anything, explore_all, sql, transact

pytestmark = pytest.mark.usefixtures("counter_table")

TABLES = """
    CREATE TABLE "Odd table" (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "a,b" text[] UNIQUE, twice text
        GENERATED ALWAYS AS (note || note) STORED, gone int, note text DEFAULT 'x', at json);
    ALTER TABLE "Odd table" DROP COLUMN gone;
    CREATE TABLE no_key (id int, note text);
    CREATE TABLE child (parent int NOT NULL REFERENCES "Odd table" ON DELETE CASCADE, n float8);
    CREATE TABLE heir () INHERITS (no_key);
    INSERT INTO heir VALUES (1, 'same');
    ALTER TABLE no_key SET UNLOGGED;
    CREATE TABLE history (note text);
    CREATE SEQUENCE unused START 7;
    CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO history VALUES (TG_OP); RETURN NULL; END';
    CREATE TRIGGER remember AFTER INSERT OR UPDATE OR DELETE ON "Odd table"
        FOR EACH ROW EXECUTE FUNCTION remember();
    INSERT INTO "Odd table" ("a,b", note, at)
        VALUES (ARRAY['1', NULL, '"\\'], 'it''s', '{"a": 1}'), (NULL, NULL, NULL);
    INSERT INTO no_key VALUES (1, 'same'), (1, 'same'), (1, ''), (NULL, NULL);
    INSERT INTO child VALUES (1, 0.1), (1, 0.1), (2, 'NaN');
    CREATE TABLE part (whole int);  -- which is older than what it refers to
    CREATE TABLE whole (id int PRIMARY KEY);
    ALTER TABLE part ADD FOREIGN KEY (whole) REFERENCES whole;
    INSERT INTO whole VALUES (1);
    INSERT INTO part VALUES (1);
    CREATE TABLE position (id int PRIMARY KEY, at int);
    INSERT INTO position VALUES (1, 1), (2, 2), (3, 3);
    CREATE MATERIALIZED VIEW seen AS SELECT id FROM no_key;
"""
ROWS = """
    SELECT (SELECT array_agg(t::text ORDER BY t::text) FROM "Odd table" t),
        (SELECT array_agg(t::text ORDER BY t::text) FROM no_key t),
        (SELECT array_agg(t::text ORDER BY t::text) FROM child t),
        (SELECT array_agg(t::text ORDER BY t::text) FROM history t)
"""
WRITES = [
    "DELETE FROM no_key WHERE ctid = (SELECT ctid FROM no_key WHERE note = 'same' LIMIT 1)",
    "INSERT INTO no_key VALUES (1, 'same'), (7, '7')",
    "UPDATE no_key SET note = NULL",
    "DELETE FROM ONLY no_key",
    'DELETE FROM "Odd table"',
    """UPDATE "Odd table" SET note = 'other', "a,b" = NULL""",
    'INSERT INTO "Odd table" (note) VALUES (7) RETURNING id',
    'TRUNCATE "Odd table", no_key, child, history RESTART IDENTITY',
]


@pytest.fixture
def without_superuser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the explorer do without switching triggers off, which a superuser alone may."""
    monkeypatch.setattr(rows, "MAY_IGNORE_TRIGGERS", "SELECT false")


def save_rows() -> Rows:
    return Rows(DjangoDatabase("default").ask)


@pytest.fixture(params=["as superuser", "as any role"])
def saved(request: pytest.FixtureRequest, tables: None) -> Rows:
    if request.param == "as any role":
        request.getfixturevalue("without_superuser")
    return save_rows()


@pytest.mark.parametrize(
    "write",
    [
        "DELETE FROM part; DELETE FROM whole",
        "INSERT INTO whole VALUES (2); INSERT INTO part VALUES (2)",
    ],
)
@pytest.mark.usefixtures("tables", "without_superuser")
def test_referenced_rows_are_inserted_first_and_deleted_last(write: str) -> None:
    saved = save_rows()
    sql(write)
    saved.put_back()
    assert sql("SELECT id, whole FROM whole, part") == [(1, 1)]


@pytest.mark.usefixtures("tables")
def test_a_trigger_that_always_fires_writes_no_row() -> None:
    sql('ALTER TABLE "Odd table" ENABLE ALWAYS TRIGGER remember')
    before = sql(ROWS)
    saved = save_rows()
    sql('DELETE FROM "Odd table"')
    saved.put_back()
    assert sql(ROWS) == before


@pytest.mark.usefixtures("tables")
def test_rows_are_put_back_in_their_places(interleave: Interleave) -> None:
    """An UPDATE of several rows locks them in the order of their places, in each schedule."""
    to_the_front = transact(
        "UPDATE position SET at = at + 1 WHERE at < 2", "UPDATE position SET at = 1 WHERE id = 2"
    )
    move_up = partial(sql, "UPDATE position SET at = at + 1 WHERE at < 3")
    assert interleave(to_the_front, move_up, invariant=anything, expected=Exception).complete
    assert sql("SELECT id FROM position ORDER BY ctid") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("write", WRITES)
def test_writes_are_put_back(saved: Rows, write: str) -> None:
    before = sql(ROWS)
    first_id = sql(WRITES[5])
    assert sql("SELECT nextval('unused')") == [(7,)]
    saved.put_back()
    assert sql(ROWS) == before
    sql(write)
    assert sql(ROWS) != before
    saved.put_back()
    assert sql(ROWS) == before
    assert not saved.has_changed()
    assert sql(WRITES[5]) == first_id  # the sequences, too
    assert sql("SELECT nextval('unused')") == [(7,)]


def test_a_table_that_was_created_since_is_emptied(saved: Rows) -> None:
    sql("CREATE TABLE later (id int); INSERT INTO later VALUES (1)")
    saved.put_back()
    rows = sql("SELECT id FROM later")
    sql("DROP TABLE later")
    assert rows == []


def test_a_transaction_that_was_rolled_back_and_other_sessions_are_seen(saved: Rows) -> None:
    before = sql(ROWS)

    def process() -> None:
        with transaction.atomic():
            sql("DELETE FROM child")
            transaction.set_rollback(True)
        sql("INSERT INTO child VALUES (1, 7)")

    def invariant(outcomes: list[Outcome]) -> str:
        return "" if sql("SELECT count(*) FROM child") == [(5,)] else "not put back"

    found = explore_all(process, process, setup=saved.put_back, invariant=invariant)
    assert found.schedules > 1
    found.assert_safe()
    saved.put_back()
    assert sql(ROWS) == before


@pytest.mark.usefixtures("tables")
def test_a_table_too_large_must_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_BYTES", 0)
    saved = save_rows()
    saved.put_back()
    sql(WRITES[0])
    with pytest.raises(CannotExplore, match="The table no_key was written, and is larger than 0"):
        saved.put_back()


def test_a_materialized_view_is_put_back_by_refreshing_it(saved: Rows) -> None:
    before = sql("SELECT id FROM seen ORDER BY id")
    sql("INSERT INTO no_key VALUES (7); REFRESH MATERIALIZED VIEW seen")
    saved.put_back()
    assert sql("SELECT id FROM seen ORDER BY id") == before
    assert not saved.has_changed()


@pytest.mark.usefixtures("tables")
def test_a_materialized_view_that_was_out_of_date_must_not_be_refreshed() -> None:
    """Its old rows would be lost."""
    sql("DELETE FROM no_key")
    saved = save_rows()
    sql("REFRESH MATERIALIZED VIEW seen")
    with pytest.raises(CannotExplore, match="The materialized view seen was refreshed"):
        saved.put_back()


@pytest.mark.usefixtures("tables", "without_superuser")
def test_a_trigger_that_keeps_writing_is_reported() -> None:
    sql("CREATE TRIGGER a AFTER DELETE ON history FOR EACH ROW EXECUTE FUNCTION remember()")
    saved = save_rows()
    sql("INSERT INTO history VALUES ('again')")
    with pytest.raises(CannotExplore, match="something keeps writing to history"):
        saved.put_back()


def test_in_a_larger_table_only_what_differs_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_ORDERED_ROWS", 1)
    counter.setup()
    saved = save_rows()
    place = "SELECT ctid::text FROM interleave_counter WHERE key = 'b'"
    before = sql(place)
    counter.naive()
    saved.put_back()
    assert counter.hits() == 0
    assert sql(place) == before


def content_type() -> int:
    return ContentType.objects.get_for_model(ContentType).pk


@pytest.mark.parametrize("cleared", [True, False])
def test_the_cache_of_content_types_is_filled(interleave: Interleave, cleared: bool) -> None:
    if cleared:
        ContentType.objects.clear_cache()
    else:
        content_type()
    found = interleave(content_type, lambda: sql("SELECT 1"), invariant=anything)
    assert found.orders == ("2",)


def test_a_cache_does_not_point_to_a_deleted_row(interleave: Interleave) -> None:
    def process() -> int:
        return ContentType.objects.get_for_model(Counter).pk

    def is_there(outcomes: list[Outcome]) -> str:
        known = ContentType.objects.filter(pk=outcomes[0].returned)
        return "" if known.exists() else "the row is gone"

    assert interleave(process, invariant=is_there).schedules > 1


@override_settings(SITE_ID=7)
def test_the_current_site_is_known(interleave: Interleave) -> None:
    if not apps.is_installed("django.contrib.sites"):
        pytest.skip("the sites framework is not installed here")
    from django.contrib.sites.models import Site

    Site.objects.create(pk=7, domain="sho.rt", name="sho.rt")
    Site.objects.clear_cache()

    def process() -> str:
        sql("SELECT 1")
        return Site.objects.get_current().domain

    assert interleave(process, invariant=anything).schedules == 2


def test_any_other_cache_is_named_by_what_it_reads(interleave: Interleave) -> None:
    kept: list[object] = []

    def cached() -> None:
        if not kept:
            kept.append(sql("SELECT hits FROM interleave_counter"))
        sql("SELECT 1")

    with pytest.raises(NotDeterministic, match=r"FROM interleave_counter.* fill it in setup"):
        explore_all(cached, cached)
    kept.clear()
    assert interleave(cached, invariant=anything).schedules == 2
