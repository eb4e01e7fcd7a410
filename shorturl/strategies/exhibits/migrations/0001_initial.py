import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("shorturl", "0020_no_single_visits"),
    ]

    operations = [
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
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("short_url", "slot"), name="exhibits_partialcount_slot_uk"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SingleVisit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("referrer", models.CharField(max_length=253)),
                ("browser", models.CharField(max_length=30)),
                ("system", models.CharField(max_length=30)),
                ("device", models.CharField(max_length=30)),
                ("country", models.CharField(max_length=2)),
                ("is_bot", models.BooleanField()),
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
            options={
                "indexes": [models.Index(fields=["short_url"], name="exhibits_singlevisit_key_ix")],
            },
        ),
    ]
