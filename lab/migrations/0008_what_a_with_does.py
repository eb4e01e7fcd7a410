"""What a statement that begins with WITH does; the recordings that lack it are to be made anew."""

from typing import Any

from django.db import migrations


def forget(apps: Any, schema_editor: Any) -> None:
    apps.get_model("lab", "Recording").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("lab", "0007_picture")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
