"""The documents show the current output of commands, and link only to existing files."""

import re
from pathlib import Path

import pytest

from project.docs import DOCUMENTS, ROOT, run_cog

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


@pytest.mark.django_db(transaction=True)
@every_document
def test_the_blocks_are_what_the_commands_print(path: Path) -> None:
    assert run_cog(path, "--check", "--diff") == 0, "make docs"


def find_row(strategy: str, table: str) -> list[str]:
    """Return the cells of the strategy's first row in a Markdown table."""
    (row, *_) = re.findall(rf"^\|.*\b{strategy} +\|.*$", table, re.MULTILINE)
    return [cell.strip(" *") for cell in row.split("|")]


def test_the_readme_shows_the_numbers_of_the_tables() -> None:
    """The tables are in docs/races.md and docs/load-tests.md, and commands write them."""
    readme = (ROOT / "README.md").read_text()
    races = (ROOT / "docs" / "races.md").read_text().split("| resolving |")[1]
    load_tests = (ROOT / "docs" / "load-tests.md").read_text()
    for strategy in ("naive", "update_returning"):
        violating, schedules = find_row(strategy, races)[2].split(" / ")
        assert f"{violating} of {schedules} |" in readme
        lost, _, _ = find_row(strategy, load_tests)[4].partition(" (")
        assert f"{lost} |" in readme


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    texts = re.findall(r"^#+ (.+)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in texts}


@every_document
def test_the_links_lead_somewhere_and_the_targets_of_make_exist(path: Path) -> None:
    text = path.read_text()
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
        if not link.startswith(("http://", "https://")):
            page = path.parent / link if link else path
            assert page.exists(), f"{path.name} links to {link}"
            assert not anchor or anchor in list_anchors(page), f"{link} has no #{anchor}"
    targets = re.findall(r"^([a-z ]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)
    assert {*commands} <= {*" ".join(targets).split()}
