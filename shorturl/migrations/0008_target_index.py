from django.contrib.postgres.indexes import HashIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Beside all traffic, as the index before it."""

    atomic = False

    dependencies = [
        ("shorturl", "0007_owner_index"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="shorturl",
            index=HashIndex(
                condition=models.Q(("owner__isnull", False)),
                fields=["target_url"],
                name="shorturl_shorturl_target_ix",
            ),
        ),
    ]
