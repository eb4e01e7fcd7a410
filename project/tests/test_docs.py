"""The documents show the current output of commands, and link only to existing files."""

import re
from pathlib import Path

import pytest
from cogapp import Cog

from project.docs import ROOT
from shorturl.strategies.table import STRATEGIES

RECIPE = re.search(r"cogapp .*-p \"(.+)\" \\\n\s+(.+)\n", (ROOT / "Makefile").read_text())
assert RECIPE
PROLOGUE, PATTERNS = RECIPE.groups()
DOCUMENTS = [path for pattern in PATTERNS.split() for path in sorted(ROOT.glob(pattern))]

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


@pytest.mark.django_db(transaction=True)
@every_document
def test_the_blocks_are_what_the_commands_print(path: Path) -> None:
    assert Cog().main(["cog", "--check", "--diff", "-p", PROLOGUE, str(path)]) == 0, "make docs"


def load_runs() -> dict[str, list[str]]:
    """Return the cells of each strategy's row in docs/load-tests.md, which `make races` prints."""
    text = (ROOT / "docs" / "load-tests.md").read_text()
    rows = re.findall(r"^\| lost_update +\| (.+) \|$", text, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {strategy: others for strategy, *others in cells}


def test_the_document_shows_every_strategy_under_load() -> None:
    runs = load_runs()
    assert [*runs] == ["service", *STRATEGIES["resolving"]]
    for strategy, (*_, as_expected) in runs.items():
        assert as_expected == "yes", strategy


def test_the_readme_shows_the_numbers_of_the_tables() -> None:
    """Its race is in docs/races.md and docs/load-tests.md, which commands write."""
    readme = (ROOT / "README.md").read_text()
    races = (ROOT / "docs" / "races.md").read_text().split("| resolving |")[1]
    for strategy in ("naive", "update_returning"):
        violating, schedules = re.findall(
            rf"^\| {strategy} \| \W*(\d+) / (\d+)", races, re.MULTILINE
        )[0]
        assert f"{violating} of {schedules} |" in readme
        lost, _, _ = load_runs()[strategy][1].partition(" (")
        assert f"{lost} |" in readme


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    texts = re.findall(r"^#+ (.+)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in texts}


@every_document
def test_the_links_lead_somewhere_and_the_targets_of_make_exist(path: Path) -> None:
    text = path.read_text()
    for link, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if not link.startswith(("http://", "https://")):
            page = path.parent / link if link else path
            assert page.exists(), f"{path.name} links to {link}"
            assert not heading or heading in headings(page), f"{link} has no #{heading}"
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    if path.name != "CHANGELOG.md":  # it names those of the past, too
        assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets
