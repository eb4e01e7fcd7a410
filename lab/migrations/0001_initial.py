from django.db import migrations, models

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    """Changed in place until a version is released; makemigrations says what it lacks."""

    initial = True
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Notification",
            fields=[
                ("id", ID.clone()),
                ("text", models.TextField()),
            ],
        ),
    ]
