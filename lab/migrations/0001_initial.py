from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models
from django.db.models.functions import Now

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    """Changed in place until a version is released; makemigrations says what it lacks."""

    initial = True
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Exploration",
            fields=[
                ("id", ID.clone()),
                ("race", models.CharField(max_length=40)),
                ("strategy", models.CharField(max_length=40)),
                ("processes", models.PositiveSmallIntegerField()),
                ("isolation", models.CharField(max_length=20)),
                ("digest", models.CharField(max_length=64)),
                ("asked_at", models.DateTimeField(null=True)),
                ("ran", models.PositiveIntegerField(null=True)),
                ("problem", models.TextField(blank=True)),
                ("summary", models.JSONField(null=True)),
                ("kept", ArrayField(models.BinaryField(), default=list)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("race", "strategy", "processes", "isolation"),
                        name="lab_exploration_uk",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="KeySpace",
            fields=[
                ("id", ID.clone()),
                ("name", models.CharField(max_length=20, unique=True)),
                ("key_length", models.PositiveSmallIntegerField()),
                ("own_visits", models.BooleanField(db_default=False, default=False)),
                ("created_at", models.DateTimeField(db_default=Now())),
            ],
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                ("id", ID.clone()),
                ("text", models.TextField()),
            ],
        ),
    ]
