"""`manage.py tidy`: a step that fails stops none of the others."""

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from shorturl.models import IdempotencyRecord


@pytest.mark.django_db(transaction=True)
def test_a_step_that_fails_stops_none_of_the_others() -> None:
    Session.objects.create(
        session_key="old", session_data="", expire_date=timezone.now() - timedelta(days=1)
    )
    output = StringIO()
    with connection.cursor() as cursor:
        table = IdempotencyRecord._meta.db_table
        cursor.execute(f'ALTER TABLE "{table}" RENAME TO away')
        try:
            with pytest.raises(CommandError, match=r"^answer: The database: .+") as failed:
                call_command("tidy", stdout=output)
        finally:
            cursor.execute(f'ALTER TABLE away RENAME TO "{table}"')
    assert "\n" not in str(failed.value)
    assert not Session.objects.exists()
    assert "0 counters removed." in output.getvalue()
    assert "0 rows of visits rolled up." in output.getvalue()
    call_command("tidy", stdout=StringIO())
