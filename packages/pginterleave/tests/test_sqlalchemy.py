"""SQLAlchemy's ORM without Django: two processes count a hit, with and without a row lock."""

from collections.abc import Iterator

import pytest

from pginterleave import Exploration, Outcome, explore

pytest.importorskip("psycopg")
pytest.importorskip("sqlalchemy")

from sqlalchemy import NullPool, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from pginterleave.psycopg_adapter import PsycopgDatabase

from .counter import conninfo


class Base(DeclarativeBase):
    pass


class Link(Base):
    __tablename__ = "sqlalchemy_link"

    id: Mapped[int] = mapped_column(primary_key=True)
    hits: Mapped[int]


@pytest.fixture
def database(transactional_db: None) -> Iterator[PsycopgDatabase]:
    database = PsycopgDatabase(conninfo())
    yield database
    database.close()


def count_hits(database: PsycopgDatabase, *, lock: bool) -> Exploration:
    # No pool: each Session opens a connection, in a process one whose statements are steps.
    engine = create_engine("postgresql+psycopg://", creator=database.connect, poolclass=NullPool)
    Base.metadata.create_all(engine)  # and SQLAlchemy asks for the server's version, once

    def setup() -> None:
        with Session(engine) as session, session.begin():
            session.merge(Link(id=1, hits=0))

    def hit() -> None:
        with Session(engine) as session, session.begin():
            session.get_one(Link, 1, with_for_update=lock).hits += 1

    def both_are_counted(outcomes: list[Outcome]) -> str:
        with Session(engine) as session:
            hits = session.get_one(Link, 1).hits
        return "" if hits == 2 else f"hits = {hits}"

    try:
        return explore([hit, hit], using=database, setup=setup, invariant=both_are_counted)
    finally:
        Base.metadata.drop_all(engine)


def test_a_hit_is_lost(database: PsycopgDatabase) -> None:
    found = count_hits(database, lock=False)
    assert (found.violating, found.schedules) == (12, 14)


def test_with_a_row_lock_it_is_not(database: PsycopgDatabase) -> None:
    found = count_hits(database, lock=True)
    assert found.schedules == 6
    found.assert_safe()
