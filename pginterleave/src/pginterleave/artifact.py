"""What a test has found, as a JSON file for a machine to read."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pginterleave import formatting
from pginterleave.results import Schedule

if TYPE_CHECKING:
    from pginterleave.testing import Failure


def write(folder: Path, name: str, test: str, failures: "list[Failure]") -> Path:
    """Write what a test has found to `folder/name.json`, and return the path.

    The file holds a list with an entry for each call that failed: the summary, the counterexample
    with its steps and outcomes, the counterexample drawn as text, and how to replay it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    found = [
        {
            "test": test,
            "summary": failure.summary,
            "counterexample": _schedule(failure.counterexample),
            "drawn": failure.counterexample.draw(),
            "replay": failure.replay,
        }
        for failure in failures
    ]
    path.write_text(json.dumps(found, indent=2, default=repr) + "\n")
    return path


def _schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "order": schedule.order,
        "violation": schedule.violation,
        "steps": [
            {each.name: getattr(step, each.name) for each in dataclasses.fields(step)}
            for step in schedule.timeline
        ],
        "outcomes": [
            {
                "returned": outcome.returned,
                "raised": outcome.raised and formatting.exception(outcome.raised),
            }
            for outcome in schedule.outcomes
        ],
    }
