"""The fields take the words of the field; every recording is kept."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("lab", "0004_recorded_source")]

    operations = [
        migrations.RenameModel("Run", "Batch"),
        migrations.RenameField("recording", "distinct", "explored"),
        migrations.RenameField("recording", "broken", "violating"),
        migrations.RenameField("recording", "raised", "with_error"),
        migrations.RenameField("recording", "cut", "truncated"),
        migrations.RenameField("recording", "witness", "counterexample"),
        migrations.RenameField("recordedschedule", "broken", "violation"),
    ]
