from django.db import migrations

from project.accounts import NAME_INDEX


class Migration(migrations.Migration):
    """Refuses names of accounts that differ in case alone. The table is Django's."""

    initial = True
    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.RunSQL(
            f"CREATE UNIQUE INDEX {NAME_INDEX} ON auth_user (lower(username))",
            f"DROP INDEX {NAME_INDEX}",
        ),
    ]
