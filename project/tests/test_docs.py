"""The documents show the current output of commands, and link only to existing files."""

import re
from pathlib import Path

import pytest

from lab.conftest import in_this_database
from project import docs
from project.docs import DOCUMENTS, ROOT, run_cog

__all__ = ["in_this_database"]  # a fixture

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


@pytest.mark.usefixtures("in_this_database")
@every_document
def test_the_output_in_a_document_is_what_its_command_prints_today(path: Path) -> None:
    assert run_cog(path, "--check", "--diff") == 0, "make docs"


@pytest.mark.parametrize("number", [0, 1])
def test_a_block_that_fails_fails_all_documents(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [tmp_path / "a.md", tmp_path / "b.md"]
    for document in documents:
        document.write_text("One line.\n")
    monkeypatch.setattr(docs, "DOCUMENTS", documents)
    assert docs.main() == 0
    documents[number].write_text("<!-- [[[cog 1 / 0 ]]] -->\n<!-- [[[end]]] -->\n")
    assert docs.main() != 0


def find_cell(strategy: str, column: str, document: str) -> str:
    """Return a strategy's cell in the first Markdown table that has the column and the strategy."""
    columns: list[str] = []
    for line in (ROOT / "docs" / document).read_text().splitlines():
        cells = [cell.strip(" *`") for cell in line.split("|")]
        if column in cells:
            columns = cells
        elif columns and strategy in cells:
            return cells[columns.index(column)]
    raise LookupError(f"{document} has no {column!r} of {strategy}")


def test_the_readme_shows_the_numbers_of_the_tables() -> None:
    """Commands write the tables of the documents, and people the README."""
    readme = (ROOT / "README.md").read_text()
    for strategy in ("naive", "update_returning"):
        violating_of_all = find_cell(strategy, "lost_update", "races.md")
        lost_with_percent = find_cell(strategy, "lost or failed", "load-tests.md")
        assert f"{violating_of_all.replace(' / ', ' of ')} |" in readme
        assert f"{lost_with_percent.split(' (')[0]} |" in readme


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
