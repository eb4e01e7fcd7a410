from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Question",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("cell", models.TextField()),
                ("taken", models.TextField()),
                ("votes", models.JSONField(default=dict)),
            ],
        ),
        migrations.RunSQL("ALTER TABLE room_question SET UNLOGGED", migrations.RunSQL.noop),
    ]
