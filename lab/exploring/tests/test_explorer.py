"""What an exploration keeps for the pages."""

import re

import pytest

from lab.conftest import Kept
from lab.exploring import explorer
from lab.exploring.jobs import jobs_named
from lab.scratch_database import scratch_database
from project.docs import ROOT

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_schedule_is_kept_and_counted(explored: dict[str, Kept]) -> None:
    counts = {}
    for what, kept in explored.items():
        result = kept.explored
        counts[what] = (result.violating, result.schedules, result.refused)
        assert len(kept.schedules) == result.ran == result.schedules
        assert [each.order for each in kept.schedules] == sorted(
            each.order for each in kept.schedules
        )
        assert sum(bool(each.violation) for each in kept.schedules) == result.violating
        for schedule in kept.schedules:
            taken = "".join(str(step["process"]) for step in schedule.steps)
            assert (
                re.sub("[a-z]", "", schedule.order) == taken
            )  # a letter: the process that a deadlock ended
            assert len(schedule.outcomes) == result.job.processes
    assert counts["lost_update/naive"] == (12, 14, 0)
    assert counts["toctou/check_first"] == (12, 14, 12)
    assert explored["lost_update/update_returning"].explored.counterexample == ""
    result = explored["lost_update/naive"].explored
    assert (result.counterexample, result.truncated) == ("122211", "")
    assert result.seconds > 0
    assert result.postgresql.startswith("PostgreSQL ")


def test_a_step_has_the_statement_its_result_and_the_rows(
    explored: dict[str, Kept],
) -> None:
    read, _, write, commit, *_ = explored["lost_update/naive"].schedule("121122").steps
    assert (read["kind"], read["process"], read["rows"]) == ("SELECT", 1, 1)
    assert (read["until"], read["waited_for"], read["error"], read["message"]) == (1, [], "", "")
    assert read["sql"].startswith("SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND ")
    observed = [each["observed"] for each in (read, write, commit)]
    assert observed == ["hits = 0", "hits = 0", "hits = 1"]
    lines = (ROOT / "shorturl" / "strategies" / "resolving" / "naive.py").read_text().splitlines()
    assert "get(" in lines[read["line"] - 1]
    assert write["where"] == f"shorturl/strategies/resolving/naive.py:{write['line']}"

    waits = explored["lost_update/select_for_update"].schedule("121122").steps[1]
    assert (waits["waited_for"], waits["until"]) == ([1], 4)  # process 1 commits

    schedule = explored["toctou/check_first"].schedule("12112")
    assert schedule.steps[4]["error"]
    assert "shorturl_shorturl_key_uk" in schedule.steps[4]["message"]
    assert schedule.outcomes[0] == ""
    assert schedule.outcomes[1].startswith("IntegrityError: duplicate key value")


def test_each_level_and_each_limit_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row lock waits at the default level; at a stricter one, the waiting process gets an error.

    The default level is explored last, because a level must not remain for the next job.
    """
    one = "lost_update/select_for_update/2/"
    with scratch_database():
        strict, default = (
            explorer.run(jobs_named(one + level)[0]) for level in ("serializable", "read-committed")
        )
        monkeypatch.setattr(explorer, "MAX_SCHEDULES", 1)
        cut = explorer.run(jobs_named(one)[0])
    assert (strict.violating, strict.refused, strict.schedules) == (4, 4, 6)
    assert (default.violating, default.schedules, default.proven) == (0, 6, True)
    assert (cut.schedules, cut.truncated, cut.proven) == (1, "max_schedules=1 reached", False)
