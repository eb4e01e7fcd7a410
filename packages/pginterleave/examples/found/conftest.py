"""The table of results, which `examples/found/check` writes into docs/found-in-the-wild.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "found-in-the-wild.md"
HEAD = "| package | operation | verdict | schedules run | counterexample | in threads | why |"
BEGIN, END = "<!-- examples/found/check -->\n", "<!-- end -->\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help=f"write the table into {PAGE.name}")


@pytest.fixture(scope="session")
def table(request: pytest.FixtureRequest) -> Iterator[list[list[str]]]:
    rows: list[list[str]] = []
    yield rows
    rows.sort(key=lambda row: ("holds" in row[2], row[0].lower(), row[1]))
    lines = [HEAD, "| --- | --- | --- | ---: | --- | --- | --- |"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    text = "\n".join(lines) + "\n"
    if request.config.getoption("--write-table"):
        page = PAGE.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(page[:begin] + text + page[end:])
