"""Real threads agree with the exploration at every isolation level."""

import pytest

from project.tests.conftest import ROOT, run_in


@pytest.mark.exhaustive
def test_what_is_called_safe_has_no_errors_and_what_is_called_broken_has_some() -> None:
    """With half of the calls, where each that is broken still has dozens of errors."""
    command = ["-m", "benchmarks.isolation_levels", "--calls=100"]
    ended = run_in(ROOT, *command, HOME=str(ROOT), SHORTURL_LOCAL="on")
    assert ended.returncode == 0, ended.stderr
    assert "| update_returning | 0 / 4; 0 errors, 0 lost | 2 / 4; " in ended.stdout
    strict = next(line for line in ended.stdout.splitlines() if "| with_a_retry |" in line)
    assert strict.endswith("| 0 / 20; 0 errors, 0 skewed |")
