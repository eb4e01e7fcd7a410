"""`manage.py tidy`: one command that fails keeps none of the others from their work."""

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
def test_a_command_that_fails_keeps_none_of_the_others_from_their_work() -> None:
    Session.objects.create(
        session_key="old", session_data="", expire_date=timezone.now() - timedelta(days=1)
    )
    said = StringIO()
    with connection.cursor() as cursor:
        table = IdempotencyRecord._meta.db_table
        cursor.execute(f'ALTER TABLE "{table}" RENAME TO away')
        try:
            with pytest.raises(CommandError, match=r"^forget_answers: The database: .+") as failed:
                call_command("tidy", stdout=said)
        finally:
            cursor.execute(f'ALTER TABLE away RENAME TO "{table}"')
    assert "\n" not in str(failed.value)
    assert not Session.objects.exists()
    assert "0 counters removed." in said.getvalue()
    assert "0 rows of visits rolled up." in said.getvalue()
    call_command("tidy", stdout=StringIO())
