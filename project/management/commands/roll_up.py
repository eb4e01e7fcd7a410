"""`manage.py roll_up`; on a Citus cluster shard by shard, each on its node."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from project.database import shards
from project.database.citus_checks import bounded
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
        away, taken, coordinator = list[str](), 0, connection.settings_dict
        for node in sorted({*nodes.values()}):
            connection.close()
            address = {"HOST": node.host, "PORT": node.port} if node.host else {}
            connection.settings_dict = {**coordinator, **address}
            try:
                for shard in [shard for shard in nodes if nodes[shard] == node]:
                    cluster.searched.set(f"{VISITS}_{shard}")
                    with bounded(LONGEST):
                        taken += roll_up_visits(timezone.now())
            except DatabaseError as error:
                away.append(f"{node.host}:{node.port}: {str(error).splitlines()[0]}")
        cluster.searched.set(VISITS)
        connection.close()
        connection.settings_dict = coordinator
        self.stdout.write(f"{taken:,} rows of visits rolled up.")
        if away:
            raise CommandError(f"The next run does the rest: {'; '.join(away)}.")
