"""The documents show what the commands print today, and name only what exists."""

import re
from pathlib import Path

import pytest

from lab.catalogue import OPERATIONS
from project.docs import BLOCK, ROOT, documents, is_measured, printed
from shorturl.operations import STRATEGIES
from shorturl.strategies import Verdict

every_document = pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("in_the_tests_database")
@every_document
def test_the_blocks_are_what_the_commands_print(path: Path) -> None:
    for block in BLOCK.finditer(path.read_text()):
        # The matrix is in test_races.py.
        if block["command"] != "manage.py race matrix" and not is_measured(block):
            assert block["shown"] == printed(block["command"]), "run `make docs`"


def test_the_readme_shows_every_strategy_under_load() -> None:
    """And that in every run the wrong ones broke, and the others did not."""
    text = (ROOT / "README.md").read_text()
    assert len(BLOCK.findall(text)) == 3
    section = text.split("## Reproduced under load")[1].split("\n## ")[0]
    for operation, table in STRATEGIES.items():
        rows = section.split(f"| {OPERATIONS[operation].title} ")[1].split("\n\n")[0]
        for name, strategy in table.items():
            broke, runs = re.findall(rf"^\| `{name}` .* (\d+) of (\d+) \|$", rows, re.MULTILINE)[0]
            assert broke == (runs if strategy.verdict is Verdict.WRONG else "0"), name


@every_document
def test_the_links_lead_somewhere_and_the_targets_of_make_exist(path: Path) -> None:
    text = path.read_text()
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not link.startswith(("http://", "https://")):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets
