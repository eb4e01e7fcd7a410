"""How the packages hang together: who imports whom."""

import subprocess
import sys

from project.tests.conftest import ROOT


def test_the_import_rules_of_pyproject_hold() -> None:
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    ended = subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--no-logo"],
        check=False, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
