"""The runner of isolation specs writes the same as isolationtester; the explorer agrees with it."""

import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from django.core.management import call_command

from pginterleave import Schedule, explore
from pginterleave.django.management.commands import interleave

psycopg = pytest.importorskip("psycopg")

from pginterleave.isolation_format import SpecError, Specification, parse  # noqa: E402
from pginterleave.isolation_spec import run_file  # noqa: E402
from pginterleave.psycopg_adapter import PsycopgDatabase  # noqa: E402

from .counter import parameters  # noqa: E402

SPECS = sorted((Path(__file__).parent / "specs").glob("*.spec"))

pytestmark = pytest.mark.django_db(transaction=True)


def conninfo() -> str:
    return str(psycopg.conninfo.make_conninfo(**parameters()))


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_the_output_is_the_expected_one(spec: Path) -> None:
    """The expected files were written by hand, by the rules of isolationtester."""
    written: list[str] = []
    code = run_file(spec, conninfo(), expected=spec.with_suffix(".out"), write=written.append)
    assert (code, written) == (0, ["As expected.\n"])


def test_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interleave, "test_database", lambda *, keep: nullcontext())  # in this one
    spec = SPECS[0]
    wrong = tmp_path / "wrong.out"
    wrong.write_text(spec.with_suffix(".out").read_text().replace("deadlock detected", "none"))
    command = [sys.executable, "-m", "pginterleave.isolation_spec", "--conninfo", conninfo()]

    def run(*arguments: str) -> tuple[int, str, str]:
        ended = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout, ended.stderr

    assert run(str(spec)) == (0, spec.with_suffix(".out").read_text(), "")
    code, printed, _ = run(str(spec), "--expected", str(wrong))
    assert (code, "-ERROR:  none\n+ERROR:  deadlock detected" in printed) == (1, True)
    assert run("no.spec")[0] == 2
    with pytest.raises(SystemExit) as ended:
        call_command(interleave.Command(), "spec", str(spec), "--expected", str(wrong))
    assert ended.value.code == 1
    call_command(
        interleave.Command(), "spec", str(spec), "--expected", str(spec.with_suffix(".out"))
    )
    assert "As expected." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("setup { x", "syntax error at line 1: unexpected '{'"),
        ("setup { x }\nstep a { y }", "line 2: session was expected, not 'step'"),
        ("session s", "line 1: step was expected"),
        ("session s step a { } step a { }", "duplicate step name: a"),
        ("session s step a { } permutation b", 'undefined step "b"'),
        ("session s step a { } step b { } permutation a b(a)", "cannot block on its own session"),
        (
            "session s step a { } session t step b { } permutation a(b)",
            'undefined blocking step "b" referenced in permutation step "a"',
        ),
    ],
)
def test_an_error_in_a_spec(text: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        parse(text)
    assert message in str(raised.value)


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
            for step in specification.sessions[number].steps:
                try:
                    session.execute(step.sql.rstrip("; "))
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
        each=schedules.append,
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
    from pginterleave.isolation_spec import Tester  # not at the top, where pytest collects it

    lines: list[str] = []
    specification = parse(f"{CROSSED}permutation {permutation}")
    Tester(specification, conninfo(), name="crossed", write=lines.append).run()
    kept = [line for line in "".join(lines).splitlines() if line.startswith(("step ", "ERROR"))]
    return [line for line in kept if "BEGIN" not in line]


def told_by_the_explorer(
    specification: Specification, schedule: Schedule, names: list[str]
) -> list[str]:
    sql = {step.name: step.sql for each in specification.sessions for step in each.steps}
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


ENDED = """
session s1
step exit { SELECT pg_terminate_backend(pg_backend_pid()); }
step late { SELECT 1; }
session s2
step look { SELECT 2 AS two; }
"""


def test_a_session_may_end_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in temp-schema-cleanup of PostgreSQL's source; a later step of the session is an error."""
    written: list[str] = []
    file = tmp_path / "ended.spec"
    file.write_text(ENDED + "permutation exit look")
    assert run_file(file, conninfo(), write=written.append) == 0
    assert (
        "step exit: SELECT pg_terminate_backend(pg_backend_pid());\n"
        "FATAL:  terminating connection due to administrator command\n" in "".join(written)
    )
    assert "step look: SELECT 2 AS two;\ntwo\n" in "".join(written)
    file.write_text(ENDED + "permutation exit late")
    assert run_file(file, conninfo(), write=written.append) == 2
    assert "step late cannot be sent: session s1 has ended" in capsys.readouterr().err
