import django.db.models.deletion
from django.db import migrations, models

# The column is added last, filled by the links, and takes the place of the other one. What is
# counted of a link that is no more belongs to nobody, and goes. Without ANALYZE, PostgreSQL would
# know nothing of the new column until autovacuum comes, and take every link for one of 200.
MOVE = """
    ALTER TABLE {table} ADD COLUMN {new} {type}, DROP CONSTRAINT {constraint};
    UPDATE {table} AS counts SET {new} = link.{of_link} FROM shorturl_shorturl AS link
    WHERE link.{by} = counts.{old};
    DELETE FROM {table} WHERE {new} IS NULL;
    ALTER TABLE {table} ALTER COLUMN {new} SET NOT NULL, DROP COLUMN {old},
        ADD CONSTRAINT {constraint} UNIQUE ({new}, {rest});
    ANALYZE {table}
"""
KEY = {"new": "key", "type": "varchar(20)", "of_link": "key", "by": "id", "old": "short_url_id"}
ID = {"new": "short_url_id", "type": "bigint", "of_link": "id", "by": "key", "old": "key"}
TABLES = (
    {
        "table": "shorturl_partialcount",
        "constraint": "shorturl_partialcount_slot_uk",
        "rest": "slot",
    },
    {
        "table": "shorturl_visitcount",
        "constraint": "shorturl_visitcount_kind_uk",
        "rest": "starts_at, unit, referrer, browser, system, device, country, is_bot",
    },
)


def by_key(model: str) -> migrations.AlterField:
    return migrations.AlterField(
        model_name=model,
        name="short_url",
        field=models.ForeignKey(
            db_column="key",
            db_constraint=False,
            db_index=False,
            on_delete=django.db.models.deletion.DO_NOTHING,
            related_name="+",
            to="shorturl.shorturl",
            to_field="key",
        ),
    )


class Migration(migrations.Migration):
    """Partial counts and visits name their link by its key, and no longer by its id.

    Both tables are written anew, row by row, under a lock that nobody gets past, not even to read,
    until it is committed. Processes of the version before cannot count in them afterwards. So stop
    the service first. A table is up to twice as large then, until VACUUM FULL.
    """

    dependencies = [("shorturl", "0011_visitcount")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    MOVE.format(**KEY, **names),
                    MOVE.format(**ID, **names),
                )
                for names in TABLES
            ],
            state_operations=[by_key("partialcount"), by_key("visitcount")],
        )
    ]
