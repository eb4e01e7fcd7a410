"""The report of a run: for the terminal, as JSON, as a picture, and in the documents."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pygal
from pygal.style import CleanStyle

from benchmarks import goals, measurements
from benchmarks.bench import Part
from benchmarks.goals import PGBENCH, SERVICE
from benchmarks.measurements import LINKS
from loadtests.harness.serving import ROOT

REPORTS = Path("reports")
PICTURE = ROOT / "docs" / "benchmarks.svg"


class Report:
    """What was measured, and whether it is as it has to be."""

    def __init__(
        self, parts: Sequence[Part], about: dict[str, str], *, miscounted: int, seconds: float
    ) -> None:
        self.parts, self.miscounted = parts, miscounted
        self.about = {**about, "duration": f"{seconds:.0f} s"}
        self.found = [one for part in parts for one in part.found.values()]
        self.ratios = goals.ratios(self.found)
        self.errors: Counter[str] = Counter()
        for one in self.found:
            for reading in one.readings:
                self.errors.update(reading.sample.errors)

    @property
    def passes(self) -> bool:
        """Whether the goals are met, all answers counted, and no request of the service failed."""
        failed = sum(one.failed for one in self.found if one.subject == SERVICE)
        return goals.met(self.ratios) and not self.miscounted and not failed

    @property
    def counts(self) -> str:
        """What was not counted, and what failed, in a sentence."""
        answers = sum(reading.sample.requests for one in self.found for reading in one.readings)
        failed = ", ".join(f"{number:,} {kind}" for kind, number in (+self.errors).items())
        return (
            f"Of {answers:,} answers, {self.miscounted:,} were not counted, or counted twice. "
            f"Requests that failed: {failed or 0}."
        )

    def markdown(self) -> str:
        """Return everything as Markdown."""
        about = "\n".join(f"- {name}: {value}" for name, value in self.about.items())
        tables = [
            f"**{one.title}**\n\n{measurements.table(one.found.values())}" for one in self.parts
        ]
        return "\n\n".join([about, goals.table(self.ratios), self.counts, *tables])

    def write(self) -> None:
        """Print the report, and write it as JSON and as a picture."""
        print(self.markdown())
        REPORTS.mkdir(exist_ok=True)
        data = {
            **self.about,
            "ratios": {goal.text: round(ratio, 3) for goal, ratio in self.ratios.items()},
            "miscounted": self.miscounted,
            "errors": self.errors,
            "parts": {
                part.title: [one.as_data() for one in part.found.values()] for part in self.parts
            },
        }
        (REPORTS / "bench.json").write_text(json.dumps(data, indent=2) + "\n")
        (REPORTS / "bench.svg").write_text(picture(self.parts[0]))
        print(f"\nWritten to {REPORTS}/: bench.json, bench.svg.")

    def update_documents(self) -> None:
        """Write the report into its blocks in README.md and docs/, and the picture beside it."""
        summary = f"{goals.table(self.ratios)}\n\n{self.about['date']}, {self.about['machine']}."
        shown = {ROOT / "docs" / "benchmarks.md": self.markdown(), ROOT / "README.md": summary}
        for path, text in shown.items():
            path.write_text(with_block(path.read_text(), text))
        PICTURE.write_text(picture(self.parts[0]))


def with_block(document: str, text: str) -> str:
    """Return `document` with `text` between <!-- make bench --> and <!-- end -->."""
    block = re.compile(r"(<!-- make bench -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return block.sub(lambda found: f"{found[1]}{text}{found[2]}", document)


def picture(part: Part) -> str:
    """Return requests per second by connections, for one key or new ones, as an SVG."""
    simple = {
        (subject, load.connections): one
        for (subject, load), one in part.found.items()
        if load.links == LINKS and load.keys in ("one", "new")
    }
    subjects, numbers = (list(dict.fromkeys(each)) for each in zip(*simple, strict=True))
    chart = pygal.Bar(style=CleanStyle(background="white", plot_background="white"))
    chart.config(width=760, height=380, js=[], legend_at_bottom=True, disable_xml_declaration=True)
    chart.title = "Requests per second"
    chart.x_labels = [f"{number} connections" for number in numbers]
    beside = [(SERVICE, PGBENCH)] if SERVICE in subjects else []
    for subject, figure in [*((name, "per_second") for name in subjects), *beside]:
        of_all = [simple.get((subject, number)) for number in numbers]
        name = subject if figure == "per_second" else figure
        chart.add(name, [one.median(figure) if one else None for one in of_all])
    return re.sub("<script.*?</script>", "", chart.render(is_unicode=True), flags=re.DOTALL)
