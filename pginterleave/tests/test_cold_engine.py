"""SQLAlchemy's first connection, during which no other one is made."""

import pytest

from pginterleave import StepTimeout, explore
from pginterleave.pytest_plugin import Interleave

pytest.importorskip("psycopg")
pytest.importorskip("sqlalchemy")

from sqlalchemy import NullPool, create_engine, text

from pginterleave.psycopg_adapter import PsycopgDatabase

from .test_isolation_spec import conninfo


def test_the_first_connection_of_an_engine_is_made_before(interleave: Interleave) -> None:
    """It asks for the server's version, and lets no other connect meanwhile."""
    database = PsycopgDatabase(conninfo())

    def look() -> object:
        with engine.connect() as connection:
            return connection.scalar(text("SELECT 1"))

    options = {"creator": database.connect, "poolclass": NullPool}
    engine = create_engine("postgresql+psycopg://", **options)
    try:
        with pytest.raises(StepTimeout) as raised:
            explore([look, look], using=database, invariant=lambda _: "", step_timeout=0.3)
        assert raised.value.__notes__[0].startswith("The first connection of a SQLAlchemy engine")
        engine = create_engine("postgresql+psycopg://", **options)
        assert interleave(look, using=database, invariant=lambda _: "").complete
    finally:
        database.close()
