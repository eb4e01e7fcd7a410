"""`python -m pginterleave.isolation_spec FILE`: run a specification, and compare its output."""

import argparse
import sys
from pathlib import Path

from pginterleave.isolation_spec.running_spec import run_file


def main() -> int:
    """Run the file that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m pginterleave.isolation_spec",
        description="Run a specification of PostgreSQL's isolation tests, and write its output.",
    )
    parser.add_argument("file", type=Path, help="such as src/test/isolation/specs/nowait.spec")
    text = "compare, and show only what differs from it"
    parser.add_argument("--expected", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--conninfo", default="", help="of the database; by default PGHOST, PGDATABASE and so on"
    )
    options = parser.parse_args()
    return run_file(options.file, options.conninfo, expected=options.expected)


if __name__ == "__main__":
    sys.exit(main())
