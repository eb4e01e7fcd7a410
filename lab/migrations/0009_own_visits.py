"""Key spaces with a table of visits of their own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lab", "0008_what_a_with_does")]

    operations = [
        migrations.AddField(
            "keyspace", "own_visits", models.BooleanField(default=False, db_default=False)
        ),
    ]
