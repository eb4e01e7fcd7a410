"""The output of commands in the documents: `make docs` runs their Cog blocks."""

import sys
from io import StringIO
from pathlib import Path

import django
from cogapp import Cog
from django.apps import apps
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent
PATTERNS = ["*.md", "docs/*.md", "packages/pginterleave/*.md", "packages/pginterleave/docs/*.md"]
DOCUMENTS = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]


def run_cog(path: Path, *options: str) -> int:
    """Run the Cog blocks of a document; return Cog's exit code."""
    prologue = "from project.docs import run_command, show_file"
    return int(Cog().main(["cog", *options, "--verbosity=1", "-p", prologue, str(path)]) or 0)


def run_command(command: str) -> str:
    """Return what `manage.py COMMAND` prints."""
    if not apps.ready:
        django.setup()
    output = StringIO()
    # pginterleave: alone - `make docs`, with the databases of its own that a command makes
    call_command(*command.split(), stdout=output, stderr=StringIO())
    return output.getvalue().strip("\n")


def show_file(path: str) -> str:
    """Return a Python file as a block of Markdown."""
    return f"```python\n{(ROOT / path).read_text()}```"


def main() -> int:
    """Run the Cog blocks of all documents; return 0 if none has failed."""
    return max(run_cog(path, "-r") for path in DOCUMENTS)


if __name__ == "__main__":
    sys.exit(main())
