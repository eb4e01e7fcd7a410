import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import shorturl.links.validators

# Counting a hit writes a new version of the row. When that fits into the same page, PostgreSQL
# updates in place (HOT): no index is touched, and the old version is cleared away by the next
# reader of the page instead of waiting for VACUUM. So 30 % of every page stays free for it, which
# is room for a second version of even the longest row.
# https://www.postgresql.org/docs/18/storage-hot.html
LEAVE_ROOM = "ALTER TABLE shorturl_shorturl SET (fillfactor = 70)"
LEAVE_NONE = "ALTER TABLE shorturl_shorturl RESET (fillfactor)"


class Migration(migrations.Migration):
    initial = True

    # A database that has all of these has nothing to migrate.
    replaces = [
        ("shorturl", "0001_initial"),
        ("shorturl", "0002_apitoken"),
        ("shorturl", "0003_partialcount"),
        ("shorturl", "0004_owners"),
        ("shorturl", "0005_limit_and_expiry"),
        ("shorturl", "0006_validate_limit"),
        ("shorturl", "0007_owner_index"),
        ("shorturl", "0008_target_index"),
        ("shorturl", "0009_reuseclaim_keptanswer"),
        ("shorturl", "0010_spending"),
        ("shorturl", "0011_visitcount"),
        ("shorturl", "0012_counts_by_key"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ReuseClaim",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        help_text="Who or what uses it, for example “backup”.",
                        max_length=100,
                        unique=True,
                    ),
                ),
                ("can_create", models.BooleanField(db_default=True, default=True)),
                ("can_read", models.BooleanField(db_default=True, default=True)),
                ("can_edit", models.BooleanField(db_default=True, default=True)),
                ("can_delete", models.BooleanField(db_default=True, default=True)),
                (
                    "prefix",
                    models.CharField(editable=False, max_length=17, verbose_name="begins with"),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        help_text="Limits the token to this user's links; "
                        "empty gives access to all links.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "API token",
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("caller", models.CharField(max_length=100)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("body", models.TextField(default="")),
                ("location", models.TextField(default="")),
                (
                    "kept_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), db_index=True
                    ),
                ),
            ],
            options={
                "db_table": "shorturl_keptanswer",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("caller", "key"), name="shorturl_keptanswer_key_uk"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="QuotaUsage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("spender", models.CharField(max_length=100)),
                ("period", models.DurationField(null=True)),
                (
                    "since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("spent", models.PositiveIntegerField(default=1)),
            ],
            options={
                "db_table": "shorturl_spending",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("spender", "period", "since"), name="shorturl_spending_period_uk"
                    )
                ],
            },
        ),
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
                        validators=[shorturl.links.validators.validate_target_url],
                        verbose_name="target URL",
                    ),
                ),
                ("hits", models.PositiveBigIntegerField(db_default=0, default=0, editable=False)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "max_hits",
                    models.BigIntegerField(
                        blank=True,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="limit",
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expiry")),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "short URL",
            },
        ),
        migrations.CreateModel(
            name="PartialCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slot", models.PositiveSmallIntegerField(null=True)),
                ("hits", models.PositiveBigIntegerField()),
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
        ),
        migrations.CreateModel(
            name="VisitCount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "unit",
                    models.CharField(
                        choices=[("h", "Hour"), ("d", "Day"), ("m", "Month")],
                        max_length=1,
                        null=True,
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("referrer", models.CharField(max_length=253)),
                ("browser", models.CharField(max_length=30)),
                ("system", models.CharField(max_length=30)),
                ("device", models.CharField(max_length=30)),
                ("country", models.CharField(max_length=2)),
                ("is_bot", models.BooleanField()),
                ("hits", models.BigIntegerField(db_default=1, default=1)),
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
        ),
        migrations.AddIndex(
            model_name="shorturl",
            index=models.Index(
                condition=models.Q(("owner__isnull", False)),
                fields=["owner", "id"],
                name="shorturl_shorturl_owner_ix",
            ),
        ),
        migrations.AddIndex(
            model_name="shorturl",
            index=django.contrib.postgres.indexes.HashIndex(
                condition=models.Q(("owner__isnull", False)),
                fields=["target_url"],
                name="shorturl_shorturl_target_ix",
            ),
        ),
        migrations.AddConstraint(
            model_name="shorturl",
            constraint=models.UniqueConstraint(fields=("key",), name="shorturl_shorturl_key_uk"),
        ),
        migrations.AddConstraint(
            model_name="shorturl",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_hits__gte", 1)), name="shorturl_shorturl_max_hits_ck"
            ),
        ),
        migrations.AddConstraint(
            model_name="shorturl",
            constraint=models.CheckConstraint(
                condition=models.Q(("hits__lte", models.F("max_hits"))),
                name="shorturl_shorturl_limit_ck",
            ),
        ),
        migrations.AddConstraint(
            model_name="partialcount",
            constraint=models.UniqueConstraint(
                fields=("short_url", "slot"), name="shorturl_partialcount_slot_uk"
            ),
        ),
        migrations.AddIndex(
            model_name="visitcount",
            index=models.Index(fields=["unit", "starts_at"], name="shorturl_visitcount_time_ix"),
        ),
        migrations.AddConstraint(
            model_name="visitcount",
            constraint=models.UniqueConstraint(
                fields=(
                    "short_url",
                    "starts_at",
                    "unit",
                    "referrer",
                    "browser",
                    "system",
                    "device",
                    "country",
                    "is_bot",
                ),
                name="shorturl_visitcount_kind_uk",
            ),
        ),
        migrations.AddConstraint(
            model_name="visitcount",
            constraint=models.CheckConstraint(
                condition=models.Q(("hits__gt", 0)), name="shorturl_visitcount_hits_ck"
            ),
        ),
        migrations.RunSQL(LEAVE_ROOM, LEAVE_NONE),
    ]
