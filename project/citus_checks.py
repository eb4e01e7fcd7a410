"""System checks of a database whose tables are distributed by Citus."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError, connections

from project import citus, citus_strategies
from shorturl import operations


@register(Tags.database)
def check_citus(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a worker of a Citus cluster, and a strategy that cannot run on one."""
    if "default" not in (databases or ()):
        return []
    try:
        if not citus.is_distributed():
            return []
        if not citus.is_coordinator():
            return [
                Error(
                    "DATABASE_URL leads to a worker of a Citus cluster, which has no sessions, and "
                    "locks by name that keep nobody out elsewhere.",
                    hint="Name the coordinator.",
                    id="project.E006",
                )
            ]
    except DatabaseError:
        return []
    tables = citus_strategies.TABLES.items()
    chosen = {operations.setting(name): strategies for name, strategies in tables}
    refused: list[CheckMessage] = [
        Error(
            f"{name}={getattr(settings, name)!r} cannot run on Citus: {why}.",
            hint="manage.py distribute --strategies has those that can.",
            id="project.E005",
        )
        for name, strategies in chosen.items()
        for how, why in [strategies.get(getattr(settings, name), ("", ""))]
        if how == citus_strategies.REFUSED
    ]
    if "replica" in connections:
        refused.append(
            Error(
                "DATABASE_REPLICA_URL cannot be used with Citus: how old a replica of the "
                "coordinator is says nothing of the rows on other nodes.",
                hint="Leave DATABASE_REPLICA_URL unset.",
                id="project.E007",
            )
        )
    return refused
