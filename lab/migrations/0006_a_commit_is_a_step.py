"""The COMMIT of a single statement is a step now: older recordings count fewer schedules.

They are removed, and the pages say that nothing has been explored; `manage.py record` makes them
anew.
"""

from typing import Any

from django.db import migrations


def remove(apps: Any, schema_editor: Any) -> None:
    recordings = apps.get_model("lab", "Recording").objects.using(schema_editor.connection.alias)
    recordings.all().delete()


class Migration(migrations.Migration):
    dependencies = [("lab", "0005_vocabulary")]

    operations = [migrations.RunPython(remove, migrations.RunPython.noop)]
