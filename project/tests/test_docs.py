"""The documents show what the commands print today, and name only what exists."""

import re
from pathlib import Path

import pytest

from lab.catalogue import OPERATIONS
from project.docs import BLOCK, ROOT, documents, printed
from shorturl.strategies import Verdict

every_document = pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)


@pytest.mark.django_db(transaction=True)
@every_document
def test_the_blocks_are_what_the_commands_print(path: Path) -> None:
    for block in BLOCK.finditer(path.read_text()):
        if block["command"] != "manage.py race matrix":  # which is in test_races.py
            assert block["shown"] == printed(block["command"]), "run `make docs`"


def test_the_readme_shows_the_strategies() -> None:
    commands = [block["command"] for block in BLOCK.finditer((ROOT / "README.md").read_text())]
    shown = ("strategies", "race show lost_update naive")
    assert {f"manage.py {command}" for command in shown} <= set(commands)


def test_the_readme_shows_every_strategy_under_load() -> None:
    """And that in every run the wrong ones broke, and the others did not."""
    section = (
        (ROOT / "README.md").read_text().split("## Reproduced under load")[1].split("\n## ")[0]
    )
    for title, (table, _) in OPERATIONS.items():
        operation = {"creating": "To create", "resolving": "To resolve"}[title]
        rows = section.split(f"| {operation}")[1].split("\n\n")[0]
        for name, strategy in table.items():
            broke, runs = re.findall(rf"^\| `{name}` .* (\d+) of (\d+) \|$", rows, re.MULTILINE)[0]
            assert broke == (runs if strategy.verdict is Verdict.WRONG else "0"), name


@every_document
def test_the_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@every_document
def test_the_targets_of_make_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"^make ([a-z]+)|`make ([a-z]+)", path.read_text(), re.MULTILINE)
    assert {name for pair in named for name in pair if name} <= targets
