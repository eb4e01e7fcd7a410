"""The Django app of Citus: its checks, and what shorturl/ does differently on a cluster."""

from typing import Any

from django.apps import AppConfig, apps
from django.core.management.base import CommandError
from django.db.models.signals import pre_migrate

from shorturl import cluster


class CitusConfig(AppConfig):
    name = "project.citus"

    def ready(self) -> None:
        from project.citus import checks  # noqa: F401 - registers the checks
        from project.citus.roll_up import roll_up_shards

        cluster.roll_up_shards = roll_up_shards  # shorturl/ cannot import it from project/
        # Django sends this signal for each app with models; this app has none.
        pre_migrate.connect(refuse_distributed_tables, sender=apps.get_app_config("shorturl"))


def refuse_distributed_tables(*, plan: list[Any], **_: Any) -> None:
    """Stop `migrate` before its first migration: Citus supports few kinds of ALTER TABLE."""
    from project.citus.distribution import is_distributed

    if plan and is_distributed():
        raise CommandError(
            "The tables are distributed: run manage.py distribute --undo, then migrate, then "
            "distribute."
        )
