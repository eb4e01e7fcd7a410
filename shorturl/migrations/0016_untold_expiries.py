from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    """Add the index of expiries that no receiver was told of, while the service is running."""

    atomic = False

    dependencies = [("shorturl", "0015_outbox")]

    operations = [
        # An interrupted attempt leaves an index that no query uses.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS shorturl_shorturl_expiry_ix", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name="shorturl",
            index=models.Index(
                condition=Q(
                    ("deleted_at", None),
                    ("expires_at__isnull", False),
                    Q(("expiry_told", F("expires_at")), _negated=True),
                ),
                fields=["expires_at"],
                name="shorturl_shorturl_expiry_ix",
            ),
        ),
    ]
