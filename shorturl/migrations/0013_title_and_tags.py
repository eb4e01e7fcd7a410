from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# Neither rewrites the table. IF NOT EXISTS, because a migration whose index was interrupted begins
# again.
ADD_COLUMNS = """
    ALTER TABLE shorturl_shorturl
    ADD COLUMN IF NOT EXISTS title varchar(512) NOT NULL DEFAULT '',
    ADD COLUMN IF NOT EXISTS tags varchar(50)[]
"""
DROP_COLUMNS = "ALTER TABLE shorturl_shorturl DROP COLUMN title, DROP COLUMN tags"


class Migration(migrations.Migration):
    """Add two columns, and an index while the service is running."""

    atomic = False

    dependencies = [("shorturl", "0001_squashed_0012_counts_by_key")]

    operations = [
        migrations.RunSQL(
            ADD_COLUMNS,
            DROP_COLUMNS,
            state_operations=[
                migrations.AddField(
                    model_name="shorturl",
                    name="title",
                    field=models.CharField(blank=True, db_default="", default="", max_length=512),
                ),
                migrations.AddField(
                    model_name="shorturl",
                    name="tags",
                    field=ArrayField(
                        base_field=models.CharField(max_length=50), blank=True, null=True, size=None
                    ),
                ),
            ],
        ),
        # An interrupted attempt leaves an index that no query uses.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS shorturl_shorturl_tags_ix", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name="shorturl",
            index=GinIndex(
                condition=models.Q(("tags__isnull", False)),
                fields=["tags"],
                name="shorturl_shorturl_tags_ix",
            ),
        ),
    ]
