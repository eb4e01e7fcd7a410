"""Keeps what the documents show of a command equal to what it prints: `python -m project.docs`.

A block begins with a comment that names the command, `<!-- $ manage.py strategies -->`, and ends
with `<!-- end -->`. Everything between the two is the command's output.
"""

import re
import shlex
from io import StringIO
from pathlib import Path

import django
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<begin><!-- \$ manage\.py (?P<command>.+?) -->\n)(?P<shown>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def documents() -> list[Path]:
    """Return the paths of all documents, which may hold blocks."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]


def regenerated(text: str) -> str:
    """Return a document's text with every block as its command prints it now."""

    def run(block: re.Match[str]) -> str:
        output = StringIO()
        call_command(*shlex.split(block["command"]), stdout=output)
        printed = output.getvalue().strip("\n")
        if not printed.startswith("|"):  # a Markdown table stands by itself
            printed = f"```text\n{printed}\n```"
        return f"{block['begin']}{printed}\n{block['end']}"

    return BLOCK.sub(run, text)


if __name__ == "__main__":
    django.setup()
    for path in documents():
        path.write_text(regenerated(path.read_text()))
