"""Keeps what the documents show of commands and files up to date: `python -m project.docs`.

A block begins with a comment that names a command, `<!-- $ manage.py strategies -->`, or a file,
`<!-- $ cat shorturl/keys.py -->`, and ends with `<!-- end -->`. What stands between the two is what
the command prints. A command that begins with "python" measures, for minutes: only
`python -m project.docs --measure` runs it.
"""

import os
import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path
from subprocess import PIPE

import django
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<begin><!-- \$ (?P<command>(?:manage\.py|cat|python) .+?) -->\n)"
    r"(?P<shown>.*?)(?P<end>\n<!-- end -->)",
    re.DOTALL,
)


def documents() -> list[Path]:
    """Return the paths of all documents, which may hold blocks."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted(ROOT.glob("docs/*.md")),
        ROOT / "pginterleave" / "README.md",
        *sorted(ROOT.glob("pginterleave/docs/*.md")),
    ]


def printed(command: str) -> str:
    """Return as Markdown what `command` prints: a table as it is, anything else as a listing."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        return f"```python\n{(ROOT / arguments[0]).read_text()}```"
    if program == "python":
        command_line = [sys.executable, *arguments]
        ended = subprocess.run(command_line, cwd=ROOT, stdout=PIPE, text=True, check=False)  # noqa: S603
        text = ended.stdout.strip("\n")
    else:
        output = StringIO()
        call_command(*arguments, stdout=output, stderr=StringIO())
        text = output.getvalue().strip("\n")
    return text if text.startswith("|") else f"```text\n{text}\n```"


def is_measured(block: re.Match[str]) -> bool:
    """Return whether what the block shows is different each time."""
    return block["command"].startswith("python")


def refreshed(block: re.Match[str]) -> str:
    """Return the block with what its command prints now, or as it is where that takes minutes."""
    if is_measured(block) and "--measure" not in sys.argv:
        return block[0]
    return block["begin"] + printed(block["command"]) + block["end"]


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    for path in documents():
        path.write_text(BLOCK.sub(refreshed, path.read_text()))
