"""How long anybody waits while a table of a million links gets its limit and its expiry.

    python -m benchmarks.migration [LINKS]

In a database of its own, which is dropped at the end: links are made, threads follow them without
pause, and meanwhile `migrate` adds the columns and the CHECKs, and validates them. Printed is the
longest time that one redirect took, which no lock of a migration was longer than.
"""

import os
import sys
import threading
import time
from random import randrange

import django

BEFORE = "0004_owners"
AFTER = "0006_validate_limit"
THREADS = 4
LINKS = 1_000_000
GOAL = 1.0  # seconds
FILL = """
    INSERT INTO shorturl_shorturl (key, target_url)
    SELECT 'k' || number, 'https://example.com/' || number FROM generate_series(1, %s) AS number
"""
# As the service before these migrations counts: it knows none of the new columns.
FOLLOW = "UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = %s RETURNING target_url"


def main(links: int) -> int:
    """Print the longest redirect during each migration; return 1 if one took too long, else 0."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    django.setup()
    # These need Django to be set up.
    from django.core.management import call_command
    from django.db import connection

    from lab.scratch_database import scratch_database

    with scratch_database():
        call_command("migrate", "shorturl", BEFORE, verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
            cursor.execute(FILL, [links])
            cursor.execute("RESET statement_timeout")
        longest, ended = [0.0], threading.Event()

        def follow() -> None:
            try:
                with connection.cursor() as cursor:
                    while not ended.is_set():
                        began = time.monotonic()
                        cursor.execute(FOLLOW, [f"k{randrange(links) + 1}"])  # noqa: S311
                        longest[0] = max(longest[0], time.monotonic() - began)
            finally:
                connection.close()

        threads = [threading.Thread(target=follow) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        time.sleep(2)
        print(f"before: the longest redirect took {longest[0] * 1000:.0f} ms", flush=True)
        worst = 0.0
        for migration in ("0005_limit_and_expiry", AFTER):
            longest[0], began = 0.0, time.monotonic()
            call_command("migrate", "shorturl", migration, verbosity=0)
            took, waited = time.monotonic() - began, longest[0]
            worst = max(worst, waited)
            print(f"{migration}: {took:.1f} s, and the longest redirect {waited * 1000:.0f} ms")
        ended.set()
        for thread in threads:
            thread.join()
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else LINKS))
