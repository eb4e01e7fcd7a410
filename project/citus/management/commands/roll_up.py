"""`manage.py roll_up`; on a Citus cluster shard by shard, each on its node."""

from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.utils import timezone

from project.citus.roll_up import TABLES, roll_up_shard
from project.citus.shard_map import READ_MAP, Node, ShardMap
from shorturl.management.commands import roll_up
from shorturl.models import daily_since, hourly_since


class Command(roll_up.Command):
    """A node that does not answer leaves the others to be rolled up."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Raise CommandError at the end if a node was away."""
        if not settings.DATABASE_CITUS:
            super().handle(*args, **options)
            return
        with connection.cursor() as cursor:
            maps = []
            for table in TABLES:
                cursor.execute(READ_MAP, [table])
                maps.append(ShardMap(cursor.fetchall()))
        today = timezone.now().date()
        failures, total = list[str](), 0
        # The tables are distributed alike, so a shard has the same place in each map.
        shards = list(zip(*(shard_map.shards for shard_map in maps), strict=True))
        for node in sorted({*maps[0].nodes.values()}):
            try:
                total += self.roll_up_node(
                    node, [ids for ids in shards if maps[0].find_node(ids[0]) == node], today
                )
            except DatabaseError as error:
                failures.append(f"{node}: {str(error).splitlines()[0]}")
        self.stdout.write(f"{total:,} rows of visits rolled up.")
        if failures:
            raise CommandError(f"The next run does the rest: {'; '.join(failures)}.")

    def roll_up_node(self, node: Node, shards: list[tuple[int, ...]], today: date) -> int:
        """Roll up the shards of a node; return how many rows were taken."""
        # A day later than they are no longer shown, for machines whose clocks differ.
        kept = datetime.combine(hourly_since(today) - timedelta(days=1), time.min, UTC)
        with closing(node.open_database()) as database:
            return sum(
                roll_up_shard(database, ids, hourly_since=kept, daily_since=daily_since(today))
                for ids in shards
            )
