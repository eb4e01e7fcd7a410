from django.db import migrations

WIDEN = """
    ALTER TABLE exhibits_partialcount ALTER COLUMN key TYPE varchar(64);
    ALTER TABLE exhibits_singlevisit ALTER COLUMN key TYPE varchar(64);
"""


class Migration(migrations.Migration):
    """Let keys have 64 characters, as shorturl.0021 does; no table is rewritten."""

    dependencies = [("exhibits", "0001_initial")]

    operations = [migrations.RunSQL(WIDEN, migrations.RunSQL.noop)]
