"""Milliseconds of the pages of an owner of 100,000 links with some 10 million visits.

    .venv/bin/python -m loadtests.bench_links    some four minutes; it needs 4 GB of disk

The visits are of a year, in the rows that the roll-up would have made: some 10 million for each
value of a dimension on a day. "Too long" is a page that names a shorter range, because its visits
take longer to add up than DATABASE_STATEMENT_TIMEOUT. The exit code is 1 if the visits of a tag are
not its hits, or if a page scans a whole table of visits, but for those of a year.
"""

import os
import subprocess
import sys
import time
from datetime import date, timedelta
from http import HTTPStatus
from statistics import median
from typing import Any

import requests

from loadtests import measuring
from loadtests.servers import NO_REFUSALS, ROOT, own_postgres, serving

LINKS = 100_000
LINK_DAYS = 2_200_000  # draws of a link and a day; each has five visits on average
ROUNDS = 3  # of each page, or fewer of one that takes long
MAX_SECONDS = 10
USER, PASSWORD = "bench", "bench-of-100000-links"
# A link has every tenth, hundredth and thousandth tag of a kind, so a tag has as many links less.
FILL = (
    """
    INSERT INTO shorturl_shorturl (key, target_url, owner_id, created_at, tags)
    SELECT 'k' || n, 'https://example.com/' || n, id, now() - interval '366 days',
        ARRAY['a' || n % 10, 'b' || n % 100, 'c' || n % 1000]
    FROM generate_series(0, {links} - 1) AS n, auth_user
    """,
    """
    CREATE TABLE drawn AS SELECT link, day, 1 - floor(4 * ln(1 - random()))::int AS visits FROM (
        SELECT DISTINCT floor({links} * random() ^ 3)::int AS link,
            (now() AT TIME ZONE 'UTC')::date - floor(365 * random())::int AS day
        FROM generate_series(1, {link_days})
    ) AS draws
    """,
    """
    INSERT INTO shorturl_dailyvisits (key, dimension, day, value, people, bots)
    SELECT 'k' || link, dimension, day, value, visits - visits / 5, visits / 5
    FROM drawn, LATERAL (VALUES
        ('device', (ARRAY['Phone', 'Computer', 'Tablet'])[1 + visits % 3]),
        ('browser', 'Browser ' || (link + visits) % 12), ('system', 'System ' || visits % 6),
        ('country', chr(65 + visits % 26) || chr(65 + link % 20)),
        ('referrer', (link * 7 + visits) % 300 || '.example')) AS kinds (dimension, value)
    ORDER BY day
    """,
    """
    INSERT INTO shorturl_hourlyvisits (key, hour, people, bots)
    SELECT 'k' || link, day::timestamp AT TIME ZONE 'UTC', visits - visits / 5, visits / 5
    FROM drawn WHERE day > now() - interval '14 days'
    """,
    """
    UPDATE shorturl_shorturl SET hits = sums.visits
    FROM (SELECT link, sum(visits) AS visits FROM drawn GROUP BY link) AS sums
    WHERE key = 'k' || link
    """,
    "DROP TABLE drawn",
    "VACUUM (FREEZE, ANALYZE)",
)
SCANS = """
    SELECT coalesce(sum(seq_scan), 0)::int FROM pg_stat_user_tables
    WHERE relname IN ('shorturl_dailyvisits', 'shorturl_hourlyvisits')
"""
YEAR = f"from={date.today() - timedelta(days=364)}&by=month"  # noqa: DTZ011 - any year will do
PAGES = {
    "the list": "/links",
    "the list by the last seven days": "/links?order=week",
    "the list of a tag with 1,000 links, by the last seven days": "/links?tags=b1&order=week",
    "30 days of a link": "/k100/stats",
    "30 days of a tag with 100 links": "/links/found/stats?tags=c1",
    "30 days of a tag with 1,000 links": "/links/found/stats?tags=b1",
    "30 days of a tag with 10,000 links": "/links/found/stats?tags=a1",
    "30 days of all links": "/links/found/stats",
    "a year of a tag with 1,000 links": f"/links/found/stats?tags=b1&{YEAR}",
    "a year of a tag with 10,000 links": f"/links/found/stats?tags=a1&{YEAR}",
    "a year of all links": f"/links/found/stats?{YEAR}",
}


def log_in(url: str) -> requests.Session:
    session = requests.Session()
    session.get(f"{url}/account/login/", timeout=60)
    form: dict[str, Any] = {"username": USER, "password": PASSWORD}
    form["csrfmiddlewaretoken"] = session.cookies["csrftoken"]
    session.post(f"{url}/account/login/", form, timeout=60).raise_for_status()
    return session


def main() -> int:
    """Measure, print the table, and return the exit code."""
    about = measuring.describe_machine()
    with own_postgres() as postgres:
        settings = {**NO_REFUSALS, "DATABASE_URL": postgres.url}
        with serving(**settings) as service:
            account = {"DJANGO_SUPERUSER_PASSWORD": PASSWORD, "SHORTURL_LOCAL": "on"}
            create = f"manage.py createsuperuser --noinput --username {USER} --email a@example.com"
            subprocess.run(  # noqa: S603 - nothing in it comes from outside
                [sys.executable, *create.split()],
                cwd=ROOT,
                env={**os.environ, **settings, **account},
                check=True,
            )
            for statement in FILL:
                print(f"bench: {' '.join(statement.split())[:60]}", file=sys.stderr)
                measuring.execute(postgres, statement.format(links=LINKS, link_days=LINK_DAYS))
            session = log_in(service.url)
            rows, failed = [], False
            for title, path in PAGES.items():
                scans = measuring.execute(postgres, SCANS)
                seconds: list[float] = []
                while len(seconds) < ROUNDS and sum(seconds) < MAX_SECONDS:
                    begin = time.perf_counter()
                    response = session.get(service.url + path, timeout=60)
                    seconds.append(time.perf_counter() - begin)
                is_refused = response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
                if not is_refused:
                    response.raise_for_status()
                time.sleep(1.5)  # a session reports its scans once a second
                has_scanned = measuring.execute(postgres, SCANS) > scans
                failed |= has_scanned and "year" not in title
                milliseconds = "too long" if is_refused else f"{1000 * median(seconds):,.0f}"
                rows.append([title, milliseconds, "yes" if has_scanned else "no"])
            visits = session.get(f"{service.url}/api/visits?tags=b1&{YEAR}", timeout=60).json()
    print(measuring.format_table(rows, ["page", "ms", "scans all visits"]))
    print(f"\nMeasured by `python -m loadtests.bench_links`: {about}.")
    print(f"{visits['hits']:,} hits, {visits['people'] + visits['bots']:,} visits", file=sys.stderr)
    return int(failed or visits["hits"] != visits["people"] + visits["bots"])


if __name__ == "__main__":
    sys.exit(main())
