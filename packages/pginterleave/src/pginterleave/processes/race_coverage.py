"""Race coverage: which lines of a project write or lock rows, and which explorations ran them.

A line is explored if an exploration ran it in one process, and another process of it used one of
the same tables. The line is the innermost one of the project on the stack. What a line of a test,
of a migration or of another folder sends is not reported.
"""

import functools
import linecache
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from pginterleave.sql import statements

# Names of folders and files below a source: of installed packages, of tests, and of migrations.
PACKAGE_FOLDERS = re.compile(r"(site|dist)-packages")
NOT_REPORTED = re.compile(r"tests?|migrations|test_.*\.py|.*_test\.py|(tests|conftest)\.py")
ALONE_COMMENT = re.compile(r"#\s*pginterleave:\s*alone\b[\s:,–—-]*(.*)")
# The name of a WITH: it is no table.
NAME_OF_WITH = re.compile(
    r"(?i)(\w+)\s*(?:\([\w\s,\"]*\)\s*)?\bAS\s+(?:(?:NOT\s+)?MATERIALIZED\s*)?\("
)
PACKAGE_FOLDER = f"{Path(__file__).parents[1]}{os.sep}"  # this package, also in a project's folder


@dataclass
class Written:
    """What a line has written: tables, and the explorations that ran it beside another process."""

    tables: set[str] = field(default_factory=set)
    explored: set[str] = field(default_factory=set)


class Recorder:
    """Collects the lines under the folders `sources` that write, each as `path:number`.

    The project is these folders and `root`. `test` is the test that runs.
    """

    def __init__(self, sources: Iterable[Path], root: Path) -> None:
        self.sources = tuple(f"{source}{os.sep}" for source in sources)
        self.root = f"{root}{os.sep}"
        self.test = ""
        self.lines: dict[str, Written] = defaultdict(Written)
        self._find_kind = functools.cache(self._classify_file)

    def note_statement(self, sql: str, frame: FrameType | None) -> str:
        """Note a statement that was sent from a frame; return the line if the statement writes."""
        tables = find_written_tables(sql)
        line = self._find_line(frame) if tables else ""
        if line:
            self.lines[line].tables |= tables
        return line

    def note_exploration(self, processes: list["Sent"]) -> None:
        """Note which lines ran beside another process that used one of their tables."""
        for process in processes:
            others = [other for other in processes if other is not process]
            names_of_others = frozenset().union(*(other.names for other in others))
            for line, tables in process.lines.items():
                if not tables.isdisjoint(names_of_others):
                    self.lines[line].explored.add(self.test)

    def add(self, recorded: dict[str, Any]) -> None:
        """Add the lines of another run or process, as collect_data() returns them."""
        for line, written in recorded["lines"].items():
            self.lines[line].tables.update(written["tables"])
            self.lines[line].explored.update(written["explored"])

    def collect_data(self) -> dict[str, Any]:
        """Return the lines in a form for JSON, and the percentage of them that was explored."""
        lines = {
            line: {
                "tables": sorted(self.lines[line].tables),
                "explored": sorted(self.lines[line].explored),
                "alone": find_reason_to_be_alone(*split_line(line)),
            }
            for line in sorted(self.lines, key=split_line)
        }
        counted = [line for line in lines.values() if not line["alone"]]
        explored = [line for line in counted if line["explored"]]
        percent = 100 * len(explored) / len(counted) if counted else 100.0
        return {"percent": percent, "lines": lines}

    def _find_line(self, frame: FrameType | None) -> str:
        """Return the innermost line of the project on the stack; "" if it is not reported."""
        while frame:
            kind = self._find_kind(frame.f_code.co_filename)
            if kind == "reported":
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back if kind == "of a package" else None
        return ""

    def _classify_file(self, path: str) -> Literal["of a package", "reported", "not reported"]:
        """Say whose a file is; what is outside the project counts as a package's."""
        folders = (*self.sources, self.root)
        folder = next((folder for folder in folders if path.startswith(folder)), "")
        parts = Path(path[len(folder) :]).parts
        is_installed = any(map(PACKAGE_FOLDERS.fullmatch, parts))
        if not folder or path.startswith(PACKAGE_FOLDER) or is_installed:
            return "of a package"
        if folder not in self.sources or any(map(NOT_REPORTED.fullmatch, parts)):
            return "not reported"
        return "reported"


recorder: Recorder | None = None  # of this run, if it collects


class Sent:
    """What one process of an exploration has sent."""

    def __init__(self) -> None:
        self.lines: dict[str, frozenset[str]] = {}  # the lines that write, each with its tables
        self.names: frozenset[str] = frozenset()  # of all statements: their tables are among these

    def note_statement(self, sql: str, frame: FrameType | None) -> None:
        if recorder is None:
            return
        self.names |= statements.find_names(sql)
        if line := recorder.note_statement(sql, frame):
            self.lines[line] = self.lines.get(line, frozenset()) | find_written_tables(sql)


def find_written_tables(sql: str) -> frozenset[str]:
    """Return the tables that SQL writes or locks, without the names of a WITH."""
    tables = statements.find_locked_tables(sql)
    # A long SELECT has many words before which the names of a WITH are looked for.
    return tables.difference(NAME_OF_WITH.findall(sql.lower())) if tables else tables


def split_line(line: str) -> tuple[str, int]:
    path, _, number = line.rpartition(":")
    return path, int(number)


def find_reason_to_be_alone(path: str, number: int) -> str:
    """Return the reason in a comment `# pginterleave: alone REASON` at or above a line; or ""."""
    linecache.checkcache(path)
    comment = ALONE_COMMENT.search(linecache.getline(path, number))
    while not comment and linecache.getline(path, number - 1).lstrip().startswith("#"):
        number -= 1
        comment = ALONE_COMMENT.search(linecache.getline(path, number))
    return comment[1].strip() if comment else ""


def write_report(data: dict[str, Any], root: Path) -> Iterator[str]:
    """Yield the lines of a table, as coverage.py writes one."""
    rows = [("Line", "Tables", "Explored by")]
    for line, written in data["lines"].items():
        explored_by = f"alone: {written['alone']}" if written["alone"] else "never"
        if written["explored"]:
            explored_by = f"{len(written['explored'])}: {written['explored'][0]}"
        path = line.removeprefix(f"{root}{os.sep}")
        rows.append((path, ", ".join(written["tables"]), explored_by))
    line_width = max(len(line) for line, _, _ in rows)
    tables_width = max(len(tables) for _, tables, _ in rows)
    for line, tables, explored_by in rows:
        yield f"{line.ljust(line_width)}  {tables.ljust(tables_width)}  {explored_by}"
    yield f"{data['percent']:.0f} % of the lines that ran and wrote or locked rows were explored."
    yield "A line that no test runs is not counted. Subprocesses and other drivers are not seen."
