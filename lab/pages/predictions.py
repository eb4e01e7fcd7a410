"""The predictions that WORKSHOP.md asks for: a question, and the schedule that answers it."""

import re
from dataclasses import dataclass

from lab.recording.jobs import Job, job_named

QUESTION = re.compile(r"\*\*Ask:\*\*(?P<question>.*?)\*\*Open:\*\*(?P<open>.*?)\n\s*\n", re.DOTALL)
PREDICTED = re.compile(r"/lab/races/(\w+)/(\w+)/(\d)/\?schedule=(\d+)&predict=(\d+)")


@dataclass(frozen=True)
class Prediction:
    """A question: how does the schedule `schedule` of `job` go on after its first `after` steps?"""

    question: str
    job: Job
    schedule: str
    after: int


def predictions(text: str) -> list[Prediction]:
    """Return the predictions that `text`, which is WORKSHOP.md, asks for, in its order."""
    found = []
    for part in QUESTION.finditer(text):
        question = " ".join(part["question"].replace("`", "").split())
        for race, strategy, processes, schedule, after in PREDICTED.findall(part["open"]):
            job = job_named(race, strategy, processes)
            found.append(Prediction(question, job, schedule, int(after)))
    return found
