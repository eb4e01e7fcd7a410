"""Writes what a discovery has found as one HTML file, which needs no network and no script."""

import hashlib
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

from django.template import Context, Engine
from django.utils.safestring import mark_safe

import pginterleave.picture
from pginterleave.discovery.candidates import IGNORED_TABLES
from pginterleave.discovery.findings import KINDS, Discovery, Race
from pginterleave.picture.cells import Picture, judge_end
from pginterleave.picture.context import draw_pictures, make_table
from pginterleave.picture.taking_part import choose_steps

FOLDER = Path(pginterleave.picture.__file__).parent


def write_page(path: Path, results: Discovery, project: str) -> None:
    """Write the page, with the name of the project, to a file."""
    text = make_page(results, project)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def make_page(results: Discovery, project: str) -> str:
    """Return the page; its security policy allows nothing but its own style and script."""
    style = _read("races.css") + _read("picture.css")
    script = _read("steps.js")
    races = results.sort_races()
    counts = Counter(race.kind for race in races)
    context = {
        "project": project,
        "style": mark_safe(style),  # noqa: S308 - both are files of this package
        "script": mark_safe(script),  # noqa: S308
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "results": results,
        "kinds": [(kind, meaning, counts[kind]) for kind, meaning in KINDS.items()],
        "races": [make_race_context(number, race) for number, race in enumerate(races, start=1)],
        "decided": results.decided,
        "bounds": sorted(results.count_bounds().items()),
    }
    engine = Engine(dirs=[str(FOLDER / "templates")])
    return engine.get_template("pginterleave/races.html").render(Context(context, use_l10n=False))


def _read(name: str) -> str:
    return (FOLDER / "static" / "pginterleave" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def make_race_context(number: int, race: Race) -> dict[str, Any]:
    """Return what the page shows of a race, with a `prefix` for the ids of its elements."""
    steps = choose_steps(race.steps, IGNORED_TABLES)
    sentence, _, differences = race.sentence.partition("\n\n")
    picture = Picture(
        all_steps=steps,
        steps=steps,  # the whole schedule, not its first steps
        processes=len(race.names),
        initial="",
        verdict=judge_end(sentence, raises=race.kind == "errors"),
        outcomes=[""] * len(race.names),
    )
    return {
        "race": race,
        "number": number,
        "meaning": KINDS[race.kind],
        "prefix": f"race-{number}-",
        "verdict": picture.verdict,
        "differences": differences if differences.count("\n") > 1 else "",  # the sentence says one
        "places": dict.fromkeys(s["where"] for s in race.statements if s["where"]),
        "left_out": len(race.steps) - len(steps),
        **draw_pictures(picture, "The steps from top to bottom; the table below says the same"),
        **make_table(picture),
    }
