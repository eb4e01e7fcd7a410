"""Add single visits to the visits of their hours, and let each row have a unit.

It locks the table of visits and reads all of it once. Until it ends, no page shows visits.
Redirects go on, if `combined` records their visits, because it writes another table.
"""

from django.db import migrations, models

MOVE = """
    LOCK TABLE shorturl_visitcount IN ACCESS EXCLUSIVE MODE;
    WITH single AS (
        DELETE FROM shorturl_visitcount WHERE unit IS NULL RETURNING *
    )
    INSERT INTO shorturl_visitcount AS counts
    (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
    SELECT key, date_trunc('hour', starts_at, 'UTC') AS since, 'h',
        referrer, browser, system, device, country, is_bot, sum(hits)
    FROM single GROUP BY key, since, referrer, browser, system, device, country, is_bot
    ON CONFLICT (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
    DO UPDATE SET hits = counts.hits + excluded.hits
"""


class Migration(migrations.Migration):
    dependencies = [("shorturl", "0019_partial_counts")]

    operations = [
        migrations.RunSQL(MOVE, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="visitcount",
            name="unit",
            field=models.CharField(
                choices=[("h", "Hour"), ("d", "Day"), ("m", "Month")], max_length=1
            ),
        ),
    ]
