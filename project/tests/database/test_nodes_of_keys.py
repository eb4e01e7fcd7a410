"""Where keys are is remembered."""

import time

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from project.database import nodes_of_keys as places
from project.database.nodes_of_keys import Places
from shorturl import operations

# The catalogue and the function that are asked; here, a key of one letter is on node 1.
CATALOGUE = """
    CREATE TEMP TABLE pg_dist_placement AS
        SELECT node AS shardid, node AS groupid FROM generate_series(1, 2) AS node;
    CREATE FUNCTION pg_temp.by_length(regclass, text) RETURNS int LANGUAGE sql
        AS 'SELECT length($2)'
"""


@pytest.mark.django_db
def test_a_place_is_looked_up_once_and_anew_after_a_failure_and_after_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = "get_shard_id_for_distribution_column"
    monkeypatch.setattr(places, "LOOK_UP", places.LOOK_UP.replace(function, "pg_temp.by_length"))
    with connection.cursor() as cursor:
        cursor.execute(CATALOGUE)
    known = Places()

    def looks(*keys: str) -> int:
        with CaptureQueriesContext(connection) as sent:
            assert known.look_up(dict.fromkeys(keys)) == {}
        return len(sent)

    assert known.of("a") is None
    assert looks("a", "bb") == 1
    assert (known.of("a"), known.of("bb")) == (1, 2)
    assert looks("a", "bb") == 0

    def fail(*_: object) -> None:
        raise IntegrityError

    monkeypatch.setattr(operations, "follow_often", fail)
    with pytest.raises(IntegrityError):
        known.follow_often("a", [])
    assert (known.of("a"), known.of("bb")) == (None, 2)
    assert looks("a", "bb") == 1
    monkeypatch.setattr(known, "until", time.monotonic() - 1)
    assert looks("a") == 1
    assert known.of("bb") is None
