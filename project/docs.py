"""The output of commands in the documents: `make docs` runs their Cog blocks."""

import shlex
import subprocess
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
    prologue = "from project.docs import shown"
    return int(Cog().main(["cog", *options, "--verbosity=1", "-p", prologue, str(path)]) or 0)


def shown(command: str) -> str:
    """Return the output of `command` as Markdown: a table unchanged, anything else as a listing.

    The command is `manage.py …`, `python -m …`, or `cat` with the path of a Python file.
    """
    program, *arguments = shlex.split(command)
    if program == "cat":
        return f"```python\n{(ROOT / arguments[0]).read_text()}```"
    if program == "python":
        text = subprocess.check_output([sys.executable, *arguments], cwd=ROOT, text=True)  # noqa: S603
    else:
        if not apps.ready:
            django.setup()
        output = StringIO()
        # pginterleave: alone - `make docs`, with the databases of its own that a command makes
        call_command(*arguments, stdout=output, stderr=StringIO())
        text = output.getvalue()
    text = text.strip("\n")
    return text if text.startswith("|") else f"```text\n{text}\n```"


if __name__ == "__main__":
    sys.exit(max(run_cog(path, "-r") for path in DOCUMENTS))
