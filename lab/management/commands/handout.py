"""`manage.py handout`: the predictions of docs/workshop.md on a sheet to print, with answers."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.template.loader import render_to_string

from lab.exploring.asked import asked_for
from lab.exploring.explored import explored_in
from lab.exploring.jobs import Job, job_named
from lab.pages.schedules import choose, shown

STYLES = ("shorturl/shorturl.css", "lab/lab.css", "pginterleave/picture.css")
QUESTION = re.compile(r"\*\*Ask:\*\*(?P<question>.*?)\*\*Open:\*\*(?P<open>.*?)\n\s*\n", re.DOTALL)
PREDICTED = re.compile(r"/lab/races/(\w+)/(\w+)/(\d)/\?schedule=(\d+)&predict=(\d+)")


class Prediction(NamedTuple):
    """A question: how does the `schedule` of `job` continue after its first `after` steps?"""

    question: str
    job: Job
    schedule: str
    after: int


class Command(BaseCommand):
    help = "Write the predictions of docs/workshop.md with their answers, as HTML to print."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", default="reports/handout.html")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        text = (settings.BASE_DIR / "docs" / "workshop.md").read_text(encoding="utf-8")
        asked = [
            Prediction(question, job_named(*names), schedule, int(after))
            for part in QUESTION.finditer(text)
            for question in [" ".join(part["question"].replace("`", "").split())]
            for *names, schedule, after in PREDICTED.findall(part["open"])
        ]
        found = {str(each.job): explored_in(asked_for(each.job), each.job) for each in asked}
        if missing := [job for job, result in found.items() if not result]:
            call_command("explore", *missing, stdout=self.stdout)
        context = {
            "styles": [Path(str(find(each))).read_text(encoding="utf-8") for each in STYLES],
            "questions": [self._picture(each, answered=False) for each in asked],
            "answers": [self._picture(each, answered=True) for each in asked],
        }
        path = Path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_to_string("lab/handout.html", context), encoding="utf-8")
        self.stdout.write(f"{path}: {len(asked)} predictions, and their answers. Print it.")

    def _picture(self, asked: Prediction, *, answered: bool) -> dict[str, Any]:
        found = explored_in(asked_for(asked.job), asked.job)
        assert found
        chosen = choose(found, asked.schedule)
        picture = shown(chosen, None if answered else asked.after)
        return {"asked": asked, "schedule": chosen.schedule} | {
            name: picture[name] for name in ("pictures", "held", "last", "raised", "verdict")
        }
