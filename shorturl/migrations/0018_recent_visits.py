import django.db.models.deletion
from django.db import migrations, models

VIEW = """
    CREATE VIEW shorturl_recordedvisits AS
    SELECT id, key, unit, starts_at, referrer, browser, system, device, country, is_bot, hits
    FROM shorturl_visitcount
    UNION ALL
    SELECT id, key, 'h', starts_at,
        kind ->> 0, kind ->> 1, kind ->> 2, kind ->> 3, kind ->> 4, (kind ->> 5)::boolean, 1
    FROM shorturl_recentvisits, jsonb_array_elements(kinds) AS kind
"""
# Before the table is dropped. A row without a unit is a single visit.
MOVE_BACK = """
    INSERT INTO shorturl_visitcount
    (key, starts_at, referrer, browser, system, device, country, is_bot, hits)
    SELECT key, starts_at,
        kind ->> 0, kind ->> 1, kind ->> 2, kind ->> 3, kind ->> 4, (kind ->> 5)::boolean, 1
    FROM shorturl_recentvisits, jsonb_array_elements(kinds) AS kind
"""


class Migration(migrations.Migration):
    dependencies = [("shorturl", "0017_tokens_of_users")]

    operations = [
        migrations.CreateModel(
            name="RecentVisits",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("kinds", models.JSONField()),
                (
                    "short_url",
                    models.ForeignKey(
                        db_column="key",
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="shorturl.shorturl",
                        to_field="key",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["short_url"], name="shorturl_recentvisits_key_ix")
                ],
            },
        ),
        migrations.RunSQL(migrations.RunSQL.noop, MOVE_BACK),
        migrations.CreateModel(
            name="RecordedVisits",
            fields=[],
            options={"managed": False},
        ),
        migrations.RunSQL(VIEW, "DROP VIEW shorturl_recordedvisits"),
    ]
