from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Beside all traffic, which an index made within a transaction would keep waiting."""

    atomic = False

    dependencies = [
        ("shorturl", "0006_validate_limit"),
    ]

    operations = [
        # What an attempt that was interrupted has left, which no query uses.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS shorturl_shorturl_owner_ix", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name="shorturl",
            index=models.Index(
                condition=models.Q(("owner__isnull", False)),
                fields=["owner", "id"],
                name="shorturl_shorturl_owner_ix",
            ),
        ),
    ]
