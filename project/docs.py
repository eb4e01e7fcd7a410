"""Keeps what the documents show of commands and files up to date: `python -m project.docs`.

A block begins with a comment that names a command, `<!-- $ manage.py strategies -->`, or a file,
`<!-- $ cat shorturl/keys.py -->`, and ends with `<!-- end -->`. What stands between the two is what
the command prints.
"""

import re
import shlex
from io import StringIO
from pathlib import Path

import django
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"(?P<begin><!-- \$ (?P<command>(?:manage\.py|cat) .+?) -->\n)"
    r"(?P<shown>.*?)(?P<end>\n<!-- end -->)",
    re.DOTALL,
)


def documents() -> list[Path]:
    """Return the paths of all documents, which may hold blocks."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted(ROOT.glob("docs/*.md")),
        ROOT / "pginterleave" / "README.md",
    ]


def printed(command: str) -> str:
    """Return as Markdown what `command` prints: a table as it is, anything else as a listing."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        return f"```python\n{(ROOT / arguments[0]).read_text()}```"
    output = StringIO()
    call_command(*arguments, stdout=output, stderr=StringIO())
    text = output.getvalue().strip("\n")
    return text if text.startswith("|") else f"```text\n{text}\n```"


if __name__ == "__main__":
    django.setup()
    for path in documents():
        text = path.read_text()
        path.write_text(
            BLOCK.sub(lambda it: it["begin"] + printed(it["command"]) + it["end"], text)
        )
