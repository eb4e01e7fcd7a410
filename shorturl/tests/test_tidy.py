"""`manage.py tidy` removes what is old; a step that fails stops none of the others."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from shorturl.limits.quotas import DAY
from shorturl.management.commands import tidy
from shorturl.models import IdempotencyRecord, QuotaUsage
from shorturl.tests.callers import run

AGES = [timedelta(hours=23, minutes=59), timedelta(hours=24, seconds=1), timedelta(days=400)]


@pytest.mark.django_db
def test_answers_and_counters_are_kept_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidy, "BATCH", 1)  # so that two old rows are two batches
    for age in AGES:
        QuotaUsage.objects.create(spender=str(age), period=DAY, since=Now() - age)
        IdempotencyRecord.objects.create(caller="a", key=str(age), status=201, body="")
        IdempotencyRecord.objects.filter(key=str(age)).update(kept_at=Now() - age)
    output, _ = run("tidy")
    assert "2 answers removed.\n" in output
    assert "2 counters removed.\n" in output
    youngest = str(min(AGES))
    assert IdempotencyRecord.objects.get().key == QuotaUsage.objects.get().spender == youngest


@pytest.mark.django_db(transaction=True)
def test_a_step_that_fails_stops_none_of_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    for key, days in {"old": 0, "live": 1}.items():
        expiry = timezone.now() + timedelta(days=days)
        Session.objects.create(session_key=key, session_data="", expire_date=expiry)
    table = IdempotencyRecord._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER TABLE "{table}" RENAME TO away')  # the step for answers fails
        try:
            with pytest.raises(CommandError, match=r"^answer: The database: .+ Apply") as failed:
                call_command("tidy")
        finally:
            cursor.execute(f'ALTER TABLE away RENAME TO "{table}"')
    assert "\n" not in str(failed.value)
    assert Session.objects.get().session_key == "live"
    output = capsys.readouterr().out
    assert "0 counters removed." in output
    assert "1 session removed." in output
    assert "0 rows of visits rolled up." in output
    run("tidy")  # no step fails now
