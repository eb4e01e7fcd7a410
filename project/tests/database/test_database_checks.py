"""The system checks of the database."""

import time
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.db import connection
from django.test import override_settings

from project.tests.conftest import Load


def found() -> list[str]:
    return [each.msg for each in run_checks(tags=[Tags.database], databases=["default"])]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("chosen", "more"),
    [
        ({"EMAIL_URL": ""}, 6),
        ({"EMAIL_URL": "smtp://localhost"}, 7),
        ({"EMAIL_URL": "", "SHORTURL_DELIVER": True}, 27),
    ],
)
def test_connections_are_added_up_over_all_machines(chosen: dict[str, Any], more: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW max_connections")
        most = int(cursor.fetchone()[0])
        cursor.execute("SHOW superuser_reserved_connections")
        reserved = int(cursor.fetchone()[0])
    # `each` is what a worker may have: `fits` workers are the most, and then one more.
    each = 4 + more
    fits = (most - reserved) // each
    with override_settings(MACHINES=1, WORKERS=fits, THREADS=4, **chosen):
        assert found() == []
    with override_settings(MACHINES=fits + 1, WORKERS=1, THREADS=4, **chosen):
        (said,) = found()
    assert said == (
        f"The service may open {each * (fits + 1)} connections: MACHINES {fits + 1} × WORKERS 1 × "
        f"(THREADS 4 + {more}). PostgreSQL allows {most - reserved}: max_connections {most} less "
        f"{reserved} reserved ones."
    )
    with override_settings(MACHINES=fits + 1, WORKERS=1, THREADS=4, DATABASE_POOLER="transaction"):
        assert said not in found()  # the connections are PgBouncer's


@pytest.mark.django_db
def test_a_warning_of_clocks_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 90)
    (said,) = found()
    assert said.startswith("The clocks of this machine and of the database differ by 90.")


@pytest.mark.django_db
def test_a_warning_of_an_address_that_does_not_answer(load: Load, tmp_path: Path) -> None:
    url = f"postgres://somebody@/shorturl?host={tmp_path}"
    nobody = load(DATABASE_URL=url, SHORTURL_LOCAL="on")["SERVICE_DATABASE"]
    with override_settings(SERVICE_DATABASE=nobody):
        (said,) = found()
    assert said.startswith(
        f'DATABASE_URL does not answer: connection to server on socket "{tmp_path}'
    )
