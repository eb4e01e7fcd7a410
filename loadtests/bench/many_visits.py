"""The pages of visits, and the statements behind them, on large tables.

The tables are in a separate database, which is dropped at the end. Most links have a few visits.
One has a hundred. Two have very many visits, ten times the number of links: the first of 200 kinds
in each hour and each day, a number that referrers and browsers make, the second of 1,000, a number
that countries make. roll_up_visits() compacts them, except those of the current hour. Visits are
kept by the hour for SHORTURL_VISITS_HOURLY_DAYS. One account has ten thousand links, and another
one has a tenth of all links. The program prints the sizes of the tables, and the times of each page
and its statement.

    python -m loadtests.bench.many_visits [--links 10000000]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from statistics import median
from typing import Any

import django
from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from lab.markdown import table

LINKS = 10_000_000
HOT = 10  # times as many visits of one link
OWNED = 10_000  # links of the smaller account
FEW_KINDS, MANY_KINDS = 200, 1_000  # in each hour
YEAR = 365  # days
TIMES = 5

# One of seven links was never followed. The ids are the numbers in the keys.
MAKE_LINKS = """
    INSERT INTO shorturl_shorturl (id, key, target_url, created_at, hits, owner_id)
    SELECT number, 'k' || number, 'https://example.com/' || number, now() - interval '1 year',
        CASE WHEN number %% 7 = 0 THEN 0 ELSE 1 + number %% 19 END,
        CASE WHEN number %% 10 = 0 THEN %(large)s
            WHEN number %% 10 = 1 AND number <= 10 * %(owned)s THEN %(small)s END
    FROM generate_series(1, %(links)s) AS number
"""
MAKE_VISITS = """
    INSERT INTO shorturl_visitcount (key, unit, starts_at, referrer, browser, system,
        device, country, is_bot, hits)
    SELECT 'k' || number, 'd', date_trunc('day', now(), 'UTC') - number %% 90 * interval '1 day',
        'r' || number %% 100 || '.example', 'Firefox', 'Linux', 'Computer', '', false,
        1 + number %% 19
    FROM generate_series(4, %(links)s) AS number WHERE number %% 7 > 0
"""
# A year with `kinds` in each hour, `visits` in all. Days that are no longer kept by the hour have
# all their visits in the first hour, so that there are fewer rows to roll up.
MAKE_HOT = """
    WITH today AS (
        SELECT date_trunc('day', now(), 'UTC') AS begins
    ), times AS (
        SELECT begins - day * interval '1 day' AS starts_at, 24 AS weight
        FROM today, generate_series(%(hours_kept)s + 1, %(hours_kept)s + %(days_kept)s) AS day
        UNION ALL
        SELECT starts_at, 1 FROM today, generate_series(
            begins - %(hours_kept)s * interval '1 day', now(), interval '1 hour') AS starts_at
    ), rows AS (
        SELECT *, floor(%(visits)s::numeric * weight / sum(weight) OVER ()) AS share
        FROM times, generate_series(1, %(kinds)s) AS kind
    )
    INSERT INTO shorturl_visitcount (key, unit, starts_at, referrer, browser, system,
        device, country, is_bot, hits)
    SELECT 'k' || %(link)s, 'h', starts_at, 'r' || kind %% 20 || '.example',
        'browser ' || kind / 20 %% 5, 'system ' || kind / 100 %% 2, 'Phone',
        chr(65 + kind / 200 %% 26) || 'X', kind %% 8 = 0, greatest(share, 1) FROM rows
"""
FIT = """
    UPDATE shorturl_shorturl SET hits = (
        SELECT coalesce(sum(hits), 0) FROM shorturl_visitcount WHERE key = 'k' || %(link)s
    ) WHERE id = %(link)s
"""

SIZES = """
    SELECT relname, reltuples::bigint, pg_size_pretty(pg_relation_size(oid)),
        pg_size_pretty(pg_indexes_size(oid))
    FROM pg_class WHERE relname IN ('shorturl_shorturl', 'shorturl_visitcount') ORDER BY relname
"""
NO_LIMITS = "SET statement_timeout = 0; SET lock_timeout = 0"
LIMITS = "RESET statement_timeout; RESET lock_timeout"


def make(links: int, small: int, large: int) -> None:
    """Fill the tables: link 1 has a hundred visits, 2 very many, 3 as many of more kinds."""
    from shorturl.visits.roll_up import roll_up_visits

    kept = min(settings.SHORTURL_VISITS_HOURLY_DAYS, YEAR)  # days kept by the hour
    with connection.cursor() as cursor:

        def run(name: str, statement: str, **values: int) -> None:
            began = time.monotonic()
            cursor.execute(statement, values or None)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)

        run("no limits", NO_LIMITS)
        run(f"{links:,} links", MAKE_LINKS, links=links, owned=OWNED, small=small, large=large)
        run("their visits", MAKE_VISITS, links=links)
        for link, visits, each, hours, days in [
            (1, 100, 1, -1, 100),  # one visit each on the last days
            (2, HOT * links, FEW_KINDS, kept, YEAR - kept),
            (3, HOT * links, MANY_KINDS, kept, YEAR - kept),
        ]:
            values = {"link": link, "visits": visits, "kinds": each}
            run(f"{visits:,} visits", MAKE_HOT, **values, hours_kept=hours, days_kept=days)
            run("their sum", FIT, link=link)
        run("analyze", "ANALYZE shorturl_visitcount")
        run("limits as in production", LIMITS)
        began = time.monotonic()
        rows = roll_up_visits(timezone.now())
        print(f"{rows:,} rows rolled up: {time.monotonic() - began:.0f} s", file=sys.stderr)
        run("no limits", NO_LIMITS)
        run("vacuum", "VACUUM (ANALYZE) shorturl_shorturl, shorturl_visitcount")
        run("checkpoint", "CHECKPOINT")
        run("limits again", LIMITS)


def pages(small: int, large: int) -> Iterator[tuple[str, str, Callable[[], object], str]]:
    """Yield for each page: its subject, what it shows, a function that reads that, and its path.

    The path is empty for a list of links.
    """
    from shorturl.models import ShortUrl, VisitCount
    from shorturl.visits import overview, statistics
    from shorturl.visits.ranges import Bucket, Range

    today = timezone.now().date()
    for link in (1, 2, 3):
        short_url = ShortUrl.objects.get(pk=link)
        rows = VisitCount.objects.filter(short_url=short_url).count()
        of = f"{short_url.hits:,} visits in {rows:,} rows"
        for name, days, by in [
            ("2 days by hour", 2, Bucket.HOUR),
            ("30 days by day", 30, Bucket.DAY),
            ("all by month", YEAR + 2, Bucket.MONTH),
        ]:
            chosen = Range(today - timedelta(days=days - 1), today)
            read = partial(statistics.read, short_url, chosen, by=by, top=10)
            path = f"/{short_url.key}/stats?from={chosen.first}&to={chosen.last}&by={by}"
            yield of, name, read, path
    for account in (small, large):
        own = ShortUrl.objects.filter(owner_id=account, deleted_at=None)
        for each in overview.LISTS.values():
            links = each.links(own)[: overview.SHOWN]
            yield f"{own.count():,} links", each.title, partial(fetched, links), ""


def fetched(links: QuerySet[Any]) -> list[Any]:
    return list(links.all())  # a new query, as a QuerySet caches its result


def fetch(client: Client, path: str) -> None:
    response = client.get(path)
    if response.status_code != HTTPStatus.OK:
        raise RuntimeError(f"{path} was answered with {response.status_code}")


def milliseconds(read: Callable[[], object]) -> str:
    """Return the median time of TIMES calls, after a first one that is not measured."""
    times = []
    for _ in range(1 + TIMES):
        began = time.monotonic()
        read()
        times.append(1000 * (time.monotonic() - began))
    return f"{median(times[1:]):,.1f} ms"


def main() -> None:
    """Make the tables, and print their sizes and the times of the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--links", type=int, default=LINKS)
    links = parser.parse_args().links
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    django.setup()
    from django.contrib.auth.models import User

    from lab.scratch_database import scratch_database

    with scratch_database():
        small, large = (User.objects.create_user(name).pk for name in ("small", "large"))
        make(links, small, large)
        with connection.cursor() as cursor:
            cursor.execute(SIZES)
            sizes = [[name, f"{rows:,}", *disk] for name, rows, *disk in cursor.fetchall()]
        print(table(["table", "rows", "heap", "indexes"], sizes), end="\n\n")
        rows, client = [], Client(SERVER_NAME="localhost")
        for of, name, read, path in pages(small, large):
            page = milliseconds(partial(fetch, client, path)) if path else ""
            rows.append([of, name, milliseconds(read), page])
        print(table(["of", "shown", "statement", "page"], rows))


if __name__ == "__main__":
    main()
