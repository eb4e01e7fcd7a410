"""Add partial counts to the links' hits, and drop their table.

A limit that the sum exceeds is raised to the sum, so the link shows the same hits and is used up.
No event is written of that, so the triggers are off meanwhile.

It locks the links against writes, so until it ends no hit is counted. It changes only the links
that have partial counts.
"""

from django.db import migrations

# In the order in which statements of the strategies lock the tables, so that none deadlocks.
MOVE = """
    LOCK TABLE shorturl_partialcount IN ACCESS EXCLUSIVE MODE;
    ALTER TABLE shorturl_shorturl DISABLE TRIGGER USER;
    UPDATE shorturl_shorturl AS link SET
        hits = link.hits + counted,
        max_hits = CASE
            WHEN max_hits < link.hits + counted THEN link.hits + counted ELSE max_hits
        END
    FROM (
        SELECT key, sum(hits)::bigint AS counted FROM shorturl_partialcount GROUP BY key
    ) AS parts
    WHERE link.key = parts.key;
    ALTER TABLE shorturl_shorturl ENABLE TRIGGER USER;
"""


class Migration(migrations.Migration):
    dependencies = [("shorturl", "0018_recent_visits")]

    operations = [
        migrations.RunSQL(MOVE, migrations.RunSQL.noop),
        migrations.DeleteModel("PartialCount"),
    ]
