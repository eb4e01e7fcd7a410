"""Runs a file with a specification, for the commands."""

import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from pginterleave.isolation_spec.spec import SpecError, parse
from pginterleave.isolation_spec.tester import Tester

SAME, DIFFERENT, NOT_RUN = 0, 1, 2  # exit codes


def run_file(
    file: Path,
    conninfo: str,
    *,
    expected: Path | None = None,
    write: Callable[[str], object] = sys.stdout.write,
) -> int:
    """Run a specification and write its output, or how it differs; return the exit code.

    It is 0, or 1 if the output is not the expected one, or 2 if there is no complete one.
    """
    lines: list[str] = []
    try:
        wanted = expected.read_text().splitlines() if expected else []
        specification = parse(file.read_text())
        for name in specification.unused:
            sys.stderr.write(f"unused step name: {name}\n")
        collect = lines.append if expected else write
        Tester(specification, conninfo, name=file.stem, write=collect).run()
    except (SpecError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return NOT_RUN
    difference = [*difflib.unified_diff(wanted, "".join(lines).splitlines(), lineterm="")]
    if expected:
        write("".join(f"{line}\n" for line in difference) or "As expected.\n")
    return DIFFERENT if expected and difference else SAME
