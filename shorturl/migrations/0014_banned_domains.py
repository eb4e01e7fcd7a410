"""The table of banned domains."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("shorturl", "0013_title_and_tags"),
    ]

    operations = [
        migrations.CreateModel(
            name="BannedDomain",
            fields=[
                ("domain", models.CharField(max_length=253, primary_key=True, serialize=False)),
                (
                    "banned_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
        ),
    ]
