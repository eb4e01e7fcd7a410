import django.db.models.functions.datetime
from django.db import migrations, models

import shorturl.validators

# Counting a hit writes a new version of the row. When that fits into the same page, PostgreSQL
# updates in place (HOT): no index is touched, and the old version is cleared away by the next
# reader of the page instead of waiting for VACUUM. So 30 % of every page stays free for it, which
# is room for a second version of even the longest row.
# https://www.postgresql.org/docs/18/storage-hot.html
LEAVE_ROOM = "ALTER TABLE shorturl_shorturl SET (fillfactor = 70)"
LEAVE_NONE = "ALTER TABLE shorturl_shorturl RESET (fillfactor)"


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ShortUrl",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(editable=False, max_length=20)),
                (
                    "target_url",
                    models.CharField(
                        max_length=2000,
                        validators=[shorturl.validators.validate_target_url],
                        verbose_name="target URL",
                    ),
                ),
                (
                    "hits",
                    models.PositiveBigIntegerField(db_default=0, default=0, editable=False),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "verbose_name": "short URL",
                "constraints": [
                    models.UniqueConstraint(fields=("key",), name="shorturl_shorturl_key_uk")
                ],
            },
        ),
        migrations.RunSQL(LEAVE_ROOM, LEAVE_NONE),
    ]
