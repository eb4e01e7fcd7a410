from django.db import migrations, models


class Migration(migrations.Migration):
    """Add a column; no table is rewritten."""

    dependencies = [("shorturl", "0021_longer_keys")]

    operations = [
        migrations.AddField(
            model_name="shorturl",
            name="forward_query",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
