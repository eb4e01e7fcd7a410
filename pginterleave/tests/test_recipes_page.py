"""The table of the recipes has the counts that the recipes' tests assert."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_the_table_has_what_the_tests_assert() -> None:
    page = (HERE.parent / "docs" / "recipes.md").read_text()
    rows = re.findall(r"^\| \[(.+)\]\(#.+\) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    shown = re.findall(
        r"^## (.+)\n(?:.*\n)*?<!-- \$ cat pginterleave/(.+) -->$", page, re.MULTILINE
    )
    asserted = []
    for title, path in shown:
        text = (HERE.parent / path).read_text()
        ((violating, schedules),) = re.findall(r'match="(\d+) of (\d+) schedules violate"', text)
        (safe,) = re.findall(r"\.schedules == (\d+)$", text, re.MULTILINE)
        asserted.append((title, f"{violating} / {schedules}", f"0 / {safe}"))
    assert rows == asserted
    assert len(rows) == len(list(HERE.glob("recipes/test_*.py")))
