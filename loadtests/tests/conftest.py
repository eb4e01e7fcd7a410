"""What the tests that run Locust against a service share."""

from collections.abc import Iterator

import pytest

from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.serving import NO_REFUSALS

LAB = {"SHORTURL_LAB": "on", "SHORTURL_LAB_LOAD": "on", **NO_REFUSALS}


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """The URL of a database that only these tests use."""
    with own_postgres() as postgres:
        yield postgres.url
