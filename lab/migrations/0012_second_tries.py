from django.db import migrations, models

FORGET = """
    DELETE FROM lab_recordedschedule USING lab_recording AS recording
    WHERE recording_id = recording.id AND race IN {races};
    DELETE FROM lab_recording WHERE race IN {races}
"""
RACES = "('crossed_locks', 'given_back', 'repeated_request', 'killed_before_the_answer')"


class Migration(migrations.Migration):
    """The races with second tries are explored again: they were recorded without these."""

    dependencies = [
        ("lab", "0011_refused"),
    ]

    operations = [
        migrations.AddField("recordedschedule", "second_tries", models.JSONField(default=list)),
        migrations.RunSQL(FORGET.format(races=RACES), migrations.RunSQL.noop),
    ]
