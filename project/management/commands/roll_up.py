"""`manage.py roll_up`; on a Citus cluster shard by shard, each on its node."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from project.database import shards
from project.database.database_checks import bounded
from shorturl import cluster
from shorturl.management.commands import roll_up
from shorturl.models import VisitCount
from shorturl.visits.roll_up import roll_up_visits

LONGEST = 300  # seconds for a shard; each batch is committed, and the next run does the rest
VISITS = VisitCount._meta.db_table


class Command(roll_up.Command):
    """A node that does not answer leaves the others to be rolled up."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Raise CommandError at the end if a node was away."""
        if not settings.DATABASE_CITUS:
            super().handle(*args, **options)
            return
        with connection.cursor() as cursor:
            nodes = shards.read(cursor, VISITS).nodes
        away, taken, coordinator = {}, 0, connection.settings_dict
        for shard, node in sorted(nodes.items(), key=lambda each: each[1]):
            if node not in away:
                try:
                    taken += self.of_shard(node, f"{VISITS}_{shard}")
                except DatabaseError as error:
                    away[node] = f"{node.host}:{node.port}: {str(error).splitlines()[0]}"
        connection.close()
        connection.settings_dict = coordinator
        self.stdout.write(f"{taken:,} rows of visits rolled up.")
        if away:
            raise CommandError(f"The next run does the rest: {'; '.join(away.values())}.")

    def of_shard(self, node: shards.Node, table: str) -> int:
        """Roll up the rows of a shard; raise DatabaseError."""
        if connection.settings_dict != node.database:
            connection.close()
            connection.settings_dict = node.database
        searched = cluster.searched.set(table)
        try:
            with bounded(LONGEST):
                return roll_up_visits(timezone.now())
        finally:
            cluster.searched.reset(searched)
