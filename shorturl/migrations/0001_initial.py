from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, HashIndex
from django.core.validators import MinValueValidator
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Now, Upper

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
LINK = models.ForeignKey(
    "shorturl.ShortUrl",
    models.DO_NOTHING,
    to_field="key",
    db_column="key",
    related_name="+",
    db_constraint=False,
    db_index=False,
)
OWNER = models.ForeignKey(
    settings.AUTH_USER_MODEL,
    models.SET_NULL,
    blank=True,
    db_index=False,
    null=True,
    related_name="+",
)
USER_OF_TOKEN = models.ForeignKey(
    settings.AUTH_USER_MODEL,
    models.CASCADE,
    blank=True,
    help_text="Limits the token to this user's links; empty gives access to all links.",
    null=True,
    related_name="+",
)
NUMBER = models.BigIntegerField(db_default=0, default=0)
MAY = models.BooleanField(db_default=True, default=True)
NOW = models.DateTimeField(db_default=Now())
OWNED = Q(owner__isnull=False)
DIMENSIONS = ("referrer", "browser", "system", "device", "country")
EXPIRY_UNTOLD = Q(deleted_at=None, expires_at__isnull=False) & ~Q(expiry_told=F("expires_at"))


def unique(name: str, *fields: str) -> models.UniqueConstraint:
    return models.UniqueConstraint(fields=fields, name=name)


# Counting a hit writes a new version of the row. Where that fits into the same page, no index is
# touched (HOT): https://www.postgresql.org/docs/18/storage-hot.html
LEAVE_ROOM = "ALTER TABLE shorturl_shorturl SET (fillfactor = 70)"

# The triggers that call it are made with the first subscription: shorturl/events/subscribing.py.
TELL = """
CREATE FUNCTION shorturl_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shorturl_linkevent (subscription_id, key, type, at, data)
    SELECT id, NEW.key, TG_ARGV[0], clock_timestamp(), jsonb_build_object(
        'key', NEW.key, 'target_url', NEW.target_url, 'max_hits', NEW.max_hits,
        'expires_at', NEW.expires_at, 'created_at', NEW.created_at
    )
    FROM shorturl_subscription
    WHERE TG_ARGV[0] <> 'link.expired' OR created_at < NEW.expires_at
    ORDER BY id;
    RETURN NULL;
END $$
"""


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="ShortUrl",
            fields=[
                ("id", ID.clone()),
                ("key", models.CharField(db_collation="C", editable=False, max_length=64)),
                ("target_url", models.CharField("target URL", max_length=2000)),
                ("hits", models.PositiveBigIntegerField(db_default=0, default=0, editable=False)),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("owner", OWNER),
                (
                    "max_hits",
                    models.BigIntegerField(
                        "limit", blank=True, null=True, validators=[MinValueValidator(1)]
                    ),
                ),
                ("expires_at", models.DateTimeField("expiry", blank=True, null=True)),
                ("forward_query", models.BooleanField(db_default=False, default=False)),
                ("title", models.CharField(blank=True, db_default="", default="", max_length=512)),
                (
                    "tags",
                    ArrayField(models.CharField(max_length=50), blank=True, null=True, size=None),
                ),
                ("expiry_told", models.DateTimeField(editable=False, null=True)),
            ],
            options={
                "verbose_name": "short URL",
                "constraints": [
                    unique("shorturl_shorturl_key_uk", "key"),
                    models.CheckConstraint(
                        condition=Q(max_hits__gte=1), name="shorturl_shorturl_max_hits_ck"
                    ),
                    models.CheckConstraint(
                        condition=Q(hits__lte=F("max_hits")), name="shorturl_shorturl_limit_ck"
                    ),
                ],
                "indexes": [
                    models.Index(
                        fields=["owner", "id"], name="shorturl_shorturl_owner_ix", condition=OWNED
                    ),
                    HashIndex(
                        fields=["target_url"], name="shorturl_shorturl_target_ix", condition=OWNED
                    ),
                    GinIndex(
                        fields=["tags"],
                        name="shorturl_shorturl_tags_ix",
                        condition=Q(tags__isnull=False),
                    ),
                    models.Index(Upper("key"), name="shorturl_shorturl_case_ix"),
                    models.Index(
                        fields=["expires_at"],
                        name="shorturl_shorturl_expiry_ix",
                        condition=EXPIRY_UNTOLD,
                    ),
                ],
            },
        ),
        migrations.RunSQL(LEAVE_ROOM, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="RecentVisits",
            fields=[
                ("id", ID.clone()),
                ("short_url", LINK.clone()),
                ("starts_at", models.DateTimeField()),
                ("kinds", models.JSONField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["short_url"], name="shorturl_recentvisits_key_ix")
                ],
            },
        ),
        migrations.CreateModel(
            name="HourlyVisits",
            fields=[
                ("id", ID.clone()),
                ("short_url", LINK.clone()),
                ("hour", models.DateTimeField()),
                ("people", NUMBER.clone()),
                ("bots", NUMBER.clone()),
            ],
            options={
                "constraints": [unique("shorturl_hourlyvisits_hour_uk", "short_url", "hour")],
                "indexes": [models.Index(fields=["hour"], name="shorturl_hourlyvisits_hour_ix")],
            },
        ),
        migrations.CreateModel(
            name="DailyVisits",
            fields=[
                ("id", ID.clone()),
                ("short_url", LINK.clone()),
                ("day", models.DateField()),
                (
                    "dimension",
                    models.CharField(
                        choices=[(name, name.title()) for name in DIMENSIONS], max_length=8
                    ),
                ),
                ("value", models.CharField(max_length=253)),
                ("people", NUMBER.clone()),
                ("bots", NUMBER.clone()),
            ],
            options={
                "constraints": [
                    unique(
                        "shorturl_dailyvisits_value_uk", "short_url", "dimension", "day", "value"
                    )
                ],
                "indexes": [
                    models.Index(
                        fields=["day"],
                        name="shorturl_dailyvisits_day_ix",
                        condition=~Q(day__day=1),
                    ),
                    models.Index(fields=["day", "dimension"], name="shorturl_dailyvisits_range_ix"),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", ID.clone()),
                ("caller", models.CharField(max_length=100)),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField()),
                ("body", models.TextField(default="")),
                ("location", models.TextField(default="")),
                ("kept_at", models.DateTimeField(db_default=Now(), db_index=True)),
            ],
            options={"constraints": [unique("shorturl_idempotencyrecord_key_uk", "caller", "key")]},
        ),
        migrations.CreateModel(
            name="QuotaUsage",
            fields=[
                ("id", ID.clone()),
                ("spender", models.CharField(max_length=100)),
                ("period", models.DurationField()),
                ("since", NOW.clone()),
                ("spent", models.PositiveIntegerField(default=1)),
            ],
            options={
                "constraints": [
                    unique("shorturl_quotausage_period_uk", "spender", "period", "since")
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", ID.clone()),
                (
                    "name",
                    models.CharField(
                        help_text="Who or what uses it, for example “backup”.", max_length=100
                    ),
                ),
                ("user", USER_OF_TOKEN),
                ("can_create", MAY.clone()),
                ("can_read", MAY.clone()),
                ("can_edit", MAY.clone()),
                ("can_delete", MAY.clone()),
                ("prefix", models.CharField("begins with", editable=False, max_length=17)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "verbose_name": "API token",
                "constraints": [
                    models.UniqueConstraint(
                        fields=["user", "name"],
                        name="shorturl_apitoken_name_uk",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BannedDomain",
            fields=[
                ("domain", models.CharField(max_length=253, primary_key=True, serialize=False)),
                ("banned_at", NOW.clone()),
            ],
        ),
        migrations.CreateModel(
            name="Subscription",
            fields=[
                ("id", ID.clone()),
                ("url", models.CharField(max_length=2000, unique=True)),
                ("secret", models.CharField(max_length=100)),
                ("created_at", NOW.clone()),
            ],
        ),
        migrations.CreateModel(
            name="LinkEvent",
            fields=[
                ("id", ID.clone()),
                (
                    "subscription",
                    models.ForeignKey(
                        "shorturl.Subscription",
                        models.CASCADE,
                        db_index=False,
                        related_name="events",
                    ),
                ),
                ("key", models.CharField(max_length=64)),
                ("type", models.CharField(max_length=20)),
                ("at", NOW.clone()),
                ("data", models.JSONField(default=dict)),
                ("attempts", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("not_before", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["subscription", "id"], name="shorturl_linkevent_next_ix"),
                    models.Index(
                        fields=["subscription", "key", "id"], name="shorturl_linkevent_older_ix"
                    ),
                ],
            },
        ),
        migrations.RunSQL(TELL, "DROP FUNCTION shorturl_tell"),
    ]
