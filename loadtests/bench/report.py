"""The report of a run: for the terminal and in the documents."""

import re
from collections import Counter
from collections.abc import Sequence

from loadtests.bench.bench import Part
from loadtests.bench.measurements import GOALS, NEW, SERVICE, goals_table, summary, table
from loadtests.harness.serving import ROOT


class Report:
    """The measurements, and whether they meet the goals."""

    def __init__(
        self, parts: Sequence[Part], about: dict[str, str], *, miscounted: int, seconds: float
    ) -> None:
        self.parts, self.miscounted = parts, miscounted
        self.about = {**about, "duration": f"{seconds:.0f} s"}
        by_key = {key: one for part in parts for key, one in part.found.items()}
        self.found, self.summary = [*by_key.values()], summary(by_key)
        of_all = ((goal, goal.ratio(by_key)) for goal in GOALS)
        self.ratios = {goal: ratio for goal, ratio in of_all if ratio is not None}
        self.errors: Counter[str] = Counter()
        for one in self.found:
            for reading in one.readings:
                self.errors.update(reading.sample.errors)

    @property
    def passes(self) -> bool:
        """Whether the goals are met, all answers were counted, and no redirect failed.

        More creates at once than there is room for are refused, with a 503.
        """
        redirects = [each for each in self.found if each.load.keys != NEW.keys]
        failed = sum(each.failed for each in redirects if each.subject == SERVICE)
        met = all(ratio >= goal.at_least for goal, ratio in self.ratios.items())
        return met and not self.miscounted and not failed

    def markdown(self) -> str:
        about = "\n".join(f"- {name}: {value}" for name, value in self.about.items())
        answers = sum(reading.sample.requests for one in self.found for reading in one.readings)
        failed = ", ".join(f"{number:,} {kind}" for kind, number in (+self.errors).items())
        counts = (
            f"Of {answers:,} answers, {self.miscounted:,} were not counted, or counted twice. "
            f"Requests that failed: {failed or 0}."
        )
        tables = [f"**{one.title}**\n\n{table(one.found.values())}" for one in self.parts]
        return "\n\n".join([about, goals_table(self.ratios), counts, *tables])

    def update_documents(self) -> None:
        """Write the report into its blocks in README.md and docs/."""
        date, machine = self.about["date"], self.about["machine"]
        short = f"{self.summary}\n\nMeasured by `make bench`: {date}, {machine}."
        shown = {ROOT / "docs" / "benchmarks.md": self.markdown(), ROOT / "README.md": short}
        for path, text in shown.items():
            path.write_text(with_block(path.read_text(), text))


def with_block(document: str, text: str) -> str:
    """Return `document` with `text` between <!-- make bench --> and <!-- end -->."""
    block = re.compile(r"(<!-- make bench -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return block.sub(lambda found: f"{found[1]}{text}{found[2]}", document)
