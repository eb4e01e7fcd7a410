from django.db import migrations, models


class Migration(migrations.Migration):
    """What was recorded before says less of each step, and is explored again."""

    dependencies = [
        ("lab", "0010_wanted"),
    ]

    operations = [
        migrations.RunSQL("TRUNCATE lab_recordedschedule, lab_recording", migrations.RunSQL.noop),
        migrations.RemoveField("recording", "with_error"),
        migrations.AddField(
            "recording",
            "refused",
            models.PositiveBigIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            "recordedschedule",
            "raises",
            models.BooleanField(default=False),
            preserve_default=False,
        ),
    ]
