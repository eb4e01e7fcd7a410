"""The explorer reports the same waits, ends of waits and errors as PostgreSQL's isolationtester."""

from functools import partial
from pathlib import Path

import pytest

from pginterleave import Options, Schedule, explore

psycopg = pytest.importorskip("psycopg")

from pginterleave.psycopg_adapter import PsycopgDatabase  # noqa: E402

from .counter import conninfo  # noqa: E402
from .isolation_tester import Specification, SpecRun, parse  # noqa: E402

SPECS = sorted((Path(__file__).parent / "specs").glob("*.spec"))

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_the_output_is_the_expected_one(spec: Path) -> None:
    """The expected files were written by hand, by the rules of isolationtester."""
    written = SpecRun(parse(spec.read_text()), conninfo()).run()
    assert written == spec.with_suffix(".out").read_text().splitlines()


CROSSED = """
setup { CREATE TABLE spec_row (id int PRIMARY KEY, hits int); }
setup { INSERT INTO spec_row VALUES (1, 0), (2, 0); }
teardown { DROP TABLE spec_row; }
session s1
step b1 { BEGIN; }
step u1 { UPDATE spec_row SET hits = hits + 1 WHERE id = 1; }
step c1 { COMMIT; }
session s2
step b2 { BEGIN ISOLATION LEVEL REPEATABLE READ; }
step l2 { SELECT count(*) FROM spec_row WHERE hits = 0; }
step u2 { UPDATE spec_row SET hits = hits + 1 WHERE id IN (1, 2); }
step c2 { COMMIT; }
"""


def test_the_explorer_agrees_with_it() -> None:
    """In every schedule both report the same waits, ends of waits and errors."""
    specification = parse(CROSSED)
    database = PsycopgDatabase(conninfo())

    def process(number: int) -> None:
        with database.connect(autocommit=True) as session:
            for text in specification.sessions[number].steps.values():
                try:
                    session.execute(text.rstrip("; "))
                except psycopg.Error:
                    continue

    def setup() -> None:
        with database.connect(autocommit=True) as session:
            session.execute("DROP TABLE IF EXISTS spec_row")
            for sql in specification.setups:
                session.execute(sql)

    schedules: list[Schedule] = []
    found = explore(
        [partial(process, 0), partial(process, 1)],
        using=database,
        setup=setup,
        invariant=lambda outcomes: None,
        options=Options(on_schedule=schedules.append),
    )
    assert found.complete
    with database.connect(autocommit=True) as session:
        session.execute("DROP TABLE spec_row")
    database.close()
    waits = 0
    for schedule in schedules:
        begun = [f"b{number}" for number in "12"]  # BEGIN is no step of the explorer
        left = {1: ["u1", "c1"], 2: ["l2", "u2", "c2"]}
        names = [left[step.process].pop(0) for step in schedule.timeline]
        told = told_by_isolationtester(" ".join([*begun, *names]))
        assert told == told_by_the_explorer(specification, schedule, names), schedule.order
        waits += "waiting" in "".join(told)
    assert 0 < waits < len(schedules) == 7


def told_by_isolationtester(permutation: str) -> list[str]:
    """Return the lines about waits and errors, without the results of queries."""
    lines = SpecRun(parse(f"{CROSSED}permutation {permutation}"), conninfo()).run()
    kept = [line for line in lines if line.startswith(("step ", "ERROR"))]
    return [line for line in kept if "BEGIN" not in line]


def told_by_the_explorer(
    specification: Specification, schedule: Schedule, names: list[str]
) -> list[str]:
    sql = {name: text for each in specification.sessions for name, text in each.steps.items()}
    lines = []
    for at, (step, name) in enumerate(zip(schedule.timeline, names, strict=True), start=1):
        waits = step.until != at
        lines.append(f"step {name}: {sql[name]}" + " <waiting ...>" * waits)
        done = [step] if not waits else []
        resumed = [each for each in schedule.timeline if each.number < each.until == at]
        for each in [*done, *resumed]:
            if each.number != at:
                lines.append(f"step {names[each.number - 1]}: <... completed>")
            if each.error:
                lines.append(f"ERROR:  {each.message}")
    return lines
