"""References of Django's models that the database may not know as foreign keys."""

import sys
from collections.abc import Iterator
from typing import Any


def list_model_keys() -> Iterator[tuple[str, str, str, str]]:
    """Yield the table and the column of each ForeignKey, and those that it refers to.

    With db_constraint=False the database does not know it.
    """
    for model in _list_models():
        for field in model._meta.concrete_fields:
            if field.remote_field:
                target = field.target_field
                yield model._meta.db_table, field.column, target.model._meta.db_table, target.column


def list_generic_keys() -> Iterator[tuple[str, str, str]]:
    """Yield the table of a model, the column with its object's id, and that with its type.

    These are the columns of a GenericForeignKey, or of a log that has them without one.
    """
    for model in _list_models():
        meta = model._meta
        names = {
            (field.ct_field, field.fk_field)
            for field in meta.private_fields
            if hasattr(field, "ct_field") and hasattr(field, "fk_field")
        }
        field_names = {field.name for field in meta.concrete_fields}
        if {"content_type", "object_id"} <= field_names:  # such as django_admin_log
            names.add(("content_type", "object_id"))
        for type_name, id_name in sorted(names):
            columns = meta.get_field(id_name).column, meta.get_field(type_name).column
            yield (meta.db_table, *columns)


def list_keys_of_types() -> Iterator[tuple[str, str, str, str]]:
    """Yield the app and the name of a content type, its table, and the column of its key."""
    for model in _list_models():
        meta = model._meta
        yield meta.app_label, meta.model_name, meta.db_table, meta.pk.column


def _list_models() -> list[Any]:
    """Return the models of a project; [] without Django."""
    apps = getattr(sys.modules.get("django.apps"), "apps", None)
    return [*apps.get_models(include_auto_created=True)] if apps and apps.ready else []
