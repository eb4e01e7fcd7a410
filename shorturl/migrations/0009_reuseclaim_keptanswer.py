from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ("shorturl", "0008_target_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReuseClaim",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name="KeptAnswer",
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
                    models.DateTimeField(db_default=Now(), db_index=True),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("caller", "key"), name="shorturl_keptanswer_key_uk"
                    )
                ],
            },
        ),
    ]
