"""`manage.py demo`: links with a year of visits, which fill the pages of a local run."""

import json
import math
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import transaction
from django.utils import timezone

from shorturl import bulk
from shorturl.management.database_command import DatabaseCommand
from shorturl.management.progress import with_progress
from shorturl.models import HOURLY_DAYS, RecentVisits, ShortUrl, Visit
from shorturl.visits.roll_up import roll_up_visits

# The links, and values of visits by their weights.
DEMO: dict[str, Any] = json.loads((settings.BASE_DIR / "lab/demo.json").read_text())
DAYS = 365
SEED = 1  # another number draws other visits
# The visits of a day as a share of those on the busiest day, by the day of the year.
COURSES: dict[str, Any] = {
    "steady": lambda day: 0.9,
    "rising": lambda day: 0.15 + 0.85 * day / DAYS,
    "fading": lambda day: 1 / (1 + math.exp((day - 320) / 12)),
    "once": lambda day: 0.06 + (math.exp((240 - day) / 9) if day >= 240 else 0),
    "new": lambda day: float(day >= DAYS - 45),
}


class Command(DatabaseCommand):
    help = "Create 22 links with a year of visits, for a local run; existing keys are left alone."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LOCAL:
            raise CommandError("Only a local run gets demo links: this is a production.")
        keys = [link["key"] for link in DEMO["links"]]
        targets = [link["target_url"] for link in DEMO["links"]]
        links = ShortUrl.objects.filter(key__in=keys, target_url__in=targets)
        superusers = User.objects.filter(is_superuser=True).values_list("pk", flat=True)
        to_make = with_progress(DEMO["links"], self.stderr.write, total=len(keys))
        try:
            for link in to_make:
                make_link(owner_id=superusers.first(), **link)
            roll_up_visits()
        except KeyboardInterrupt as error:
            message = (
                f"Interrupted: there are {links.count()} of {len(keys)} demo links. Run it again."
            )
            raise CommandError(message, returncode=130) from error
        self.stdout.write(f"There are {links.count()} demo links: see /{keys[0]}/stats.")


@transaction.atomic
def make_link(key: str, busiest_day: int, course: str, **columns: Any) -> None:
    """Create a link and its visits together, unless the key is taken."""
    random = Random(f"{SEED} {key}")  # noqa: S311 - the same visits in each run
    visits = draw_visits(random, busiest_day, COURSES[course])
    columns["hits"] = sum(map(len, visits.values()))
    columns["created_at"] = timezone.now() - timedelta(days=DAYS)
    if bulk.insert([{"key": key, **columns}]):
        rows = [RecentVisits(short_url_id=key, starts_at=at, kinds=visits[at]) for at in visits]
        RecentVisits.objects.bulk_create(rows)


def draw_visits(random: Random, busiest_day: int, course: Any) -> dict[datetime, list[Visit]]:
    """Return the visits of a year by the start of their hour, old ones by that of their day."""
    now = timezone.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    kinds = [draw_visit(random) for _ in range(50)]
    visits: dict[datetime, list[Visit]] = {}
    for age in reversed(range(DAYS)):
        midnight = today - timedelta(days=age)
        weekend = 0.55 if midnight.weekday() >= 5 else 1
        mean = busiest_day * course(DAYS - 1 - age) * weekend
        number = max(round(random.gauss(mean, mean**0.5)), 0)
        hours = random.choices(range(24), DEMO["hours"], k=number)
        for hour, visit in zip(hours, random.choices(kinds, k=number), strict=True):
            start = midnight + timedelta(hours=hour if age <= HOURLY_DAYS else 0)
            if start <= now:
                visits.setdefault(start, []).append(visit)
    return visits


def draw_visit(random: Random) -> Visit:
    country = draw_value(random, "countries")
    if random.random() < 0.16:  # the share of bots
        bot = draw_value(random, "bots")
        return Visit(browser=bot, system="Other", device="Other", country=country, is_bot=True)
    browser, system, device = draw_value(random, "devices").split("|")
    return Visit(draw_value(random, "referrers"), browser, system, device, country, is_bot=False)


def draw_value(random: Random, name: str) -> str:
    (value,) = random.choices(list(DEMO[name]), weights=list(DEMO[name].values()))
    return str(value)
