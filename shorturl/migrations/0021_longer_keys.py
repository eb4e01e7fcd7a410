"""Let keys have 64 characters.

No table is rewritten and no index is made anew. The view of visits prevents the change of a
column, so it is dropped and made again in the same transaction. It locks the tables against reads
until it ends, which takes milliseconds.
"""

from django.db import migrations, models

CHANGE = """
    DROP VIEW shorturl_recordedvisits;
    ALTER TABLE shorturl_shorturl ALTER COLUMN key TYPE varchar({length});
    ALTER TABLE shorturl_recentvisits ALTER COLUMN key TYPE varchar({length});
    ALTER TABLE shorturl_visitcount ALTER COLUMN key TYPE varchar({length});
    ALTER TABLE shorturl_linkevent ALTER COLUMN key TYPE varchar({length});
    CREATE VIEW shorturl_recordedvisits AS
    SELECT id, key, unit, starts_at, referrer, browser, system, device, country, is_bot, hits
    FROM shorturl_visitcount
    UNION ALL
    SELECT id, key, 'h', starts_at,
        kind ->> 0, kind ->> 1, kind ->> 2, kind ->> 3, kind ->> 4, (kind ->> 5)::boolean, 1
    FROM shorturl_recentvisits, jsonb_array_elements(kinds) AS kind
"""


class Migration(migrations.Migration):
    dependencies = [("shorturl", "0020_no_single_visits")]

    operations = [
        migrations.RunSQL(
            CHANGE.format(length=64),
            CHANGE.format(length=20),
            state_operations=[
                migrations.AlterField(
                    model_name="shorturl",
                    name="key",
                    field=models.CharField(editable=False, max_length=64),
                ),
                migrations.AlterField(
                    model_name="linkevent",
                    name="key",
                    field=models.CharField(max_length=64),
                ),
            ],
        ),
        migrations.AlterField(  # without the validator, which forms and the API call
            model_name="shorturl",
            name="target_url",
            field=models.CharField(max_length=2000, verbose_name="target URL"),
        ),
    ]
