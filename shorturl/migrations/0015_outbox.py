"""The outbox: subscriptions, events, and the function of the triggers that write them.

The triggers are made with the first subscription: shorturl/events/subscribing.py.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now

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
    dependencies = [("shorturl", "0014_banned_domains")]

    operations = [
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("url", models.CharField(max_length=2000, unique=True)),
                ("secret", models.CharField(max_length=100)),
                ("created_at", models.DateTimeField(db_default=Now())),
            ],
        ),
        migrations.CreateModel(
            name="LinkEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=20)),
                ("type", models.CharField(max_length=20)),
                ("at", models.DateTimeField(db_default=Now())),
                ("data", models.JSONField(default=dict)),
                ("attempts", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("not_before", models.DateTimeField(null=True)),
                (
                    "subscription",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="shorturl.subscription",
                    ),
                ),
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
        migrations.AddField(
            model_name="shorturl",
            name="expiry_told",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.RunSQL(TELL, "DROP FUNCTION shorturl_tell"),
    ]
