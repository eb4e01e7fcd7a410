import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    # A database that has all of these has nothing to migrate.
    replaces = [
        ("lab", "0001_initial"),
        ("lab", "0002_keyspace"),
        ("lab", "0003_recordings"),
        ("lab", "0004_recorded_source"),
        ("lab", "0005_vocabulary"),
        ("lab", "0006_a_commit_is_a_step"),
        ("lab", "0007_picture"),
        ("lab", "0008_what_a_with_does"),
        ("lab", "0009_own_visits"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Batch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("what", models.CharField(max_length=200)),
                ("total", models.PositiveSmallIntegerField(default=0)),
                ("done", models.PositiveSmallIntegerField(default=0)),
                ("current", models.CharField(blank=True, max_length=200)),
                ("problem", models.TextField(blank=True)),
                (
                    "started_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("ended_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="KeySpace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=20, unique=True)),
                ("key_length", models.PositiveSmallIntegerField()),
                ("own_visits", models.BooleanField(db_default=False, default=False)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Recording",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("race", models.CharField(max_length=40)),
                ("strategy", models.CharField(max_length=40)),
                ("processes", models.PositiveSmallIntegerField()),
                ("isolation", models.CharField(max_length=20)),
                ("schedules", models.PositiveBigIntegerField()),
                ("explored", models.PositiveIntegerField()),
                ("violating", models.PositiveBigIntegerField()),
                ("with_error", models.PositiveIntegerField()),
                ("truncated", models.CharField(blank=True, max_length=300)),
                ("counterexample", models.CharField(blank=True, max_length=200)),
                ("initial", models.TextField()),
                ("source", models.CharField(blank=True, max_length=64)),
                ("seconds", models.FloatField()),
                ("postgresql", models.CharField(max_length=40)),
                (
                    "recorded_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("race", "strategy", "processes", "isolation"),
                        name="lab_recording_uk",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RecordedSchedule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("order", models.CharField(max_length=200)),
                ("violation", models.TextField(blank=True)),
                ("steps", models.JSONField()),
                ("outcomes", models.JSONField()),
                (
                    "recording",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="recorded",
                        to="lab.recording",
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
                "constraints": [
                    models.UniqueConstraint(fields=("recording", "order"), name="lab_schedule_uk")
                ],
            },
        ),
    ]
