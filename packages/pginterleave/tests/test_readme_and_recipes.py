"""The recipes' table agrees with their tests."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_the_table_agrees_with_the_tests() -> None:
    page = (HERE.parent / "docs" / "recipes.md").read_text()
    rows = re.findall(r"^\| \[(.+)\]\(#.+\) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    block = r"^## (.+)\n(?:.*\n)*?<!-- .*show_file\(\"packages/pginterleave/(.+?)\"\).* -->$"
    shown = re.findall(block, page, re.MULTILINE)
    asserted = []
    for title, path in shown:
        text = (HERE.parent / path).read_text()
        ((violating, schedules),) = re.findall(r'match="(?:In )?(\d+) of (\d+) schedules', text)
        (safe,) = re.findall(r"\.schedules == (\d+)$", text, re.MULTILINE)
        asserted.append((title, f"{violating} / {schedules}", f"0 / {safe}"))
    assert rows == asserted
    assert len(rows) == len(list(HERE.glob("recipes/test_*.py")))
