"""What the picture of a schedule needs; the recordings that lack it are to be made anew."""

from typing import Any

from django.db import migrations, models


def forget(apps: Any, schema_editor: Any) -> None:
    schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # else no table can be altered after it
    apps.get_model("lab", "Recording").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("lab", "0006_a_commit_is_a_step")]

    operations = [
        migrations.RunPython(forget, migrations.RunPython.noop),
        migrations.AddField(
            "recording", "initial", models.TextField(default=""), preserve_default=False
        ),
    ]
