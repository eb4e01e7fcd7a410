from django.contrib.postgres.indexes import HashIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Beside all traffic, as the index before it."""

    atomic = False

    dependencies = [
        ("shorturl", "0007_owner_index"),
    ]

    operations = [
        # What an attempt that was interrupted has left, which no query uses.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS shorturl_shorturl_target_ix", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name="shorturl",
            index=HashIndex(
                condition=models.Q(("owner__isnull", False)),
                fields=["target_url"],
                name="shorturl_shorturl_target_ix",
            ),
        ),
    ]
