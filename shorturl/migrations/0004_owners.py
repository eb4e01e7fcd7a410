import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("shorturl", "0003_partialcount"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="can_create",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="can_delete",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="can_edit",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="can_read",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="user",
            field=models.ForeignKey(
                blank=True,
                help_text="Whose links it makes, sees and changes; without one, everybody's.",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="shorturl",
            name="owner",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
