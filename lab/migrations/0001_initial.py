from django.db import migrations, models
from django.db.models.functions import Now

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    """Changed in place until a version is released; makemigrations says what it lacks."""

    initial = True
    dependencies = []

    operations = [
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
