"""What decides the outcome of a load test, given a few records and no service."""

import json
import os
import re
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, call

import pytest

from loadtests import bench, bench_growth, measuring, profiling, races
from loadtests.measuring import Measurement
from loadtests.races import SCRIPTS, is_expected
from loadtests.records import Records, Result, Verdict
from loadtests.servers import WrkResult, run_wrk

with pytest.MonkeyPatch.context() as environment:
    environment.setenv("LOCUST_SKIP_MONKEY_PATCH", "1")  # the sockets of other tests stay
    from locust.stats import RequestStats

    from loadtests import key_space, ledger
    from loadtests.faults import __main__ as faults
    from loadtests.faults import injected, traffic

    SCRIPT_MODULES = {name: import_module(f"loadtests.{name}") for name in SCRIPTS}

HELD, VIOLATED = 0, 1
SPENDER = "7"
KEY = "lab-12345-link-0"
TARGET = f"https://lab-12345.invalid/{SPENDER}/x"


def make_link(hits: int = 0, visits: int = 0, max_hits: int | None = None) -> key_space.Link:
    return key_space.Link(KEY, TARGET, hits, max_hits, visits)


def make_records(name: str, sent: int, acknowledged: int) -> Records:
    return Records(Counter({name: sent}), Counter({name: acknowledged}))


def use(script: Any, monkeypatch: pytest.MonkeyPatch, *reads: list[key_space.Link]) -> Any:
    """Give a script the links that it reads, one after another; return its ledger."""
    answers = iter(reads)
    options = SimpleNamespace(run_name="run-12345", strategy="naive", headless=True)
    locust = SimpleNamespace(parsed_options=options, runner=None, stats=RequestStats())
    monkeypatch.setattr(script.ledger, "environment", locust)
    monkeypatch.setattr(script.space, "read", lambda: next(answers))
    monkeypatch.setattr(script.ledger, "result", None)
    monkeypatch.setattr(script.ledger, "records", Records())
    return script.ledger


@pytest.mark.parametrize(
    ("script", "name", "sent", "acknowledged", "links", "exit_code"),
    [
        ("lost_update", KEY, 2, 2, [make_link(hits=2)], HELD),
        ("lost_update", KEY, 2, 2, [make_link(hits=1)], VIOLATED),
        ("last_use", KEY, 10, 10, [make_link(hits=10)], HELD),
        ("last_use", KEY, 11, 11, [make_link(hits=10)], VIOLATED),
        ("last_use", KEY, 11, 11, [make_link(hits=11)], VIOLATED),  # all are counted
        ("same_hour", KEY, 3, 2, [make_link(hits=2, visits=2)], HELD),
        ("same_hour", KEY, 3, 3, [make_link(hits=2, visits=2)], VIOLATED),
        ("same_hour", KEY, 3, 2, [make_link(hits=3, visits=2)], VIOLATED),  # nobody was told
        ("toctou", TARGET, 1, 1, [make_link()], HELD),
        ("toctou", TARGET, 1, 1, [], VIOLATED),
        ("last_link", SPENDER, 10, 10, [make_link()] * 10, HELD),
        ("last_link", SPENDER, 10, 10, [make_link()] * 9, VIOLATED),
        ("last_link", SPENDER, 11, 11, [make_link()] * 11, VIOLATED),
        ("same_target", TARGET, 2, 2, [make_link()], HELD),
        ("same_target", TARGET, 2, 2, [make_link()] * 2, VIOLATED),
        ("same_target", TARGET, 2, 2, [], VIOLATED),
        ("repeated_request", TARGET, 2, 2, [make_link()], HELD),
        ("repeated_request", TARGET, 2, 2, [make_link()] * 2, VIOLATED),
        ("repeated_request", TARGET, 2, 2, [], VIOLATED),
    ],
)
def test_the_verdict_of_each_script(
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    name: str,
    sent: int,
    acknowledged: int,
    links: list[key_space.Link],
    exit_code: int,
) -> None:
    book = use(SCRIPT_MODULES[script], monkeypatch, links)
    records = make_records(name, sent, acknowledged)
    assert Result(records, book.read_verdict(records)).exit_code == exit_code


@pytest.mark.parametrize(
    ("link", "exit_code"),
    [
        (make_link(hits=2, visits=2), HELD),
        (make_link(hits=2, visits=2, max_hits=2), HELD),
        (make_link(hits=1, visits=1), VIOLATED),
        (make_link(hits=2, visits=1), VIOLATED),  # a hit without a visit
        (make_link(hits=2, visits=3), VIOLATED),  # a visit without a hit
        (make_link(hits=2, visits=2, max_hits=1), VIOLATED),  # a use beyond the limit
    ],
)
def test_the_verdict_of_a_fault(link: key_space.Link, exit_code: int) -> None:
    records = make_records(KEY, 2, 2)
    records.sent[TARGET] = 1  # the create of the link
    result = traffic.compare(records, [link])
    assert result.exit_code == exit_code
    assert faults.has_failed(result, [], counts_only=True) is (exit_code == VIOLATED)


@pytest.mark.parametrize(
    ("measured", "counts_only", "fails"), [(1, False, False), (2, False, True), (2, True, False)]
)
def test_a_missed_limit_fails_unless_only_counts_matter(
    measured: int, counts_only: bool, fails: bool
) -> None:
    held = Result(make_records(KEY, 1, 1), Verdict(Counter({KEY: 1}), Counter()))
    figure = injected.Figure("wait", measured, limit=1, unit="s")
    assert faults.has_failed(held, [figure], counts_only=counts_only) is fails


@pytest.mark.parametrize(
    ("arguments", "fault", "longest", "lost", "exit_code"),
    [
        ("", "kill_worker", 1_400, 0, 0),
        ("", "kill_worker", 1_600, 0, 1),
        ("", "frozen_postgres", 13_400, 0, 0),
        ("", "kill_worker", 0, 1, 1),
        ("--counts-only", "kill_worker", 1_600, 0, 0),
        ("--counts-only", "kill_worker", 1_600, 1, 1),
        ("kill_worker", "kill_worker", 1_600, 0, 1),  # it alone
    ],
)
def test_one_fault_that_is_late_or_loses_a_hit_fails_all(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    fault: str,
    longest: int,
    lost: int,
    exit_code: int,
) -> None:
    users = MagicMock()
    users.stats.total.max_response_time = longest  # milliseconds
    verdicts = [Verdict(Counter(), Counter({KEY: number})) for number in (lost, 0)]
    users.stop.side_effect = [Result(make_records(KEY, 1, 1), verdict) for verdict in verdicts]
    monkeypatch.setattr(faults, "FAULTS", {fault: lambda _: [], "overload": lambda _: []})
    monkeypatch.setattr(faults, "Traffic", lambda *_: users)
    for name in ("own_postgres", "serving"):
        monkeypatch.setattr(faults, name, lambda **_: nullcontext(MagicMock()))
    monkeypatch.setattr("sys.argv", ["faults", *arguments.split()])
    assert faults.main() == exit_code
    calls = [name for name, *_ in users.method_calls[:4]]
    assert calls == ["wait_until_at_work", "stats.reset_all", "wait_until_at_work", "stop"]
    rows = [row.split(" | ") for row in capsys.readouterr().out.splitlines() if " | " in row]
    names = [fault] if arguments == fault else [fault, "overload"]
    assert [row[0].strip("| ") for row in rows] == ["fault", *names]
    assert ("MISSED: longest wait" in rows[1][2]) is (longest == 1_600)


def test_a_fault_is_described_by_its_counts_and_its_missed_limits() -> None:
    records = Records(Counter({KEY: 5_000}), Counter({KEY: 2}), refused=Counter({KEY: 1}))
    figures = [injected.Figure("wait", number, limit=1.5, unit="s") for number in (1.5, 1.6)]
    for lost in (0, 1):
        result = Result(records, Verdict(Counter({KEY: 3}), Counter({KEY: lost})))
        name, counts, texts = faults.describe("overload", result, figures)
        assert (name, counts) == ("overload", "2 ≤ 3 ≤ 4,999")
        assert texts.startswith("wait 1.50 ≤ 1.5 s; wait 1.60 ≤ 1.5 s; MISSED: wait 1.60 ≤ 1.5 s")
        assert ("1 of 2 = 50.0%" in texts) is (lost > 0)


def test_workers_that_are_not_replaced_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injected, "KILL_INTERVAL", 0)
    workers: list[Any] = [MagicMock() for _ in range(6)]
    for worker in workers:
        worker.kill = partial(workers.remove, worker)
    (figure,) = injected.kill_worker(MagicMock(service=SimpleNamespace(workers=workers)))
    assert (figure.measured, figure.is_missed) == (injected.KILLS, True)


def test_a_frozen_postgres_goes_on_even_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    process = MagicMock()
    monkeypatch.setattr("time.sleep", MagicMock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        injected.freeze_postgres(MagicMock(**{"postgres.processes.return_value": [process] * 2}))
    assert process.mock_calls == [call.suspend()] * 2 + [call.resume()] * 2


@pytest.mark.parametrize(("overloaded", "is_missed"), [(710, False), (690, True)])
def test_an_overload_may_cost_three_tenths_of_the_redirects(
    overloaded: int, is_missed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {64: 1_000, 640: overloaded}  # by the number of clients
    results = {clients: WrkResult(n, 0, n + 2, 0.1, 0.1) for clients, n in counts.items()}
    monkeypatch.setattr(injected, "run_wrk", lambda _url, clients, *_: results[clients])
    users = MagicMock(keys={"hot": KEY}, records=Records())
    (figure,) = injected.overload(users)
    assert figure.is_missed is is_missed
    assert users.records == make_records(KEY, 1_004 + overloaded, 1_000 + overloaded)


class Client:
    """Answers every request with one response, without a network."""

    def __init__(self, status: int, content: dict[str, str], headers: dict[str, str]) -> None:
        success = lambda: None  # noqa: E731
        headers = {"Content-Type": "application/json", **headers}
        self.response = SimpleNamespace(
            status_code=status, headers=headers, json=lambda: content, success=success
        )

    def request(self, *args: Any, **options: Any) -> AbstractContextManager[Any]:
        self.options = options
        return nullcontext(self.response)


ERROR = {"exception": "IntegrityError"}


@pytest.mark.parametrize(
    ("status", "content", "headers", "field", "name"),
    [
        (302, {}, {}, "acknowledged", KEY),
        (201, {}, {}, "acknowledged", KEY),
        (409, {}, {}, "refused", KEY),
        (410, {}, {}, "refused", KEY),
        (429, {}, {}, "refused", KEY),
        (500, ERROR, {}, "failed", "IntegrityError"),
        (503, ERROR, {}, "", ""),
        (500, {}, {}, "", ""),  # a proxy may have made it up
        (302, {}, {"X-Request-ID": "that of another request"}, "", ""),
    ],
)
def test_what_an_answer_is_recorded_as(
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    content: dict[str, str],
    headers: dict[str, str],
    field: str,
    name: str,
) -> None:
    script: Any = SCRIPT_MODULES["lost_update"]
    book = use(script, monkeypatch)
    for counter in vars(book.records):
        monkeypatch.setattr(book, counter, getattr(book.records, counter), raising=False)
    script.space.follow(Client(status, content, headers), KEY)
    recorded = {key: dict(counter) for key, counter in vars(book.records).items() if counter}
    assert recorded == {"sent": {KEY: 1}, **({field: {name: 1}} if field else {})}


@pytest.mark.parametrize(
    ("status", "kind", "recorded", "redirects"),  # in a row, of which there were 5
    [
        (500, "cold", ["sent", "failed"], 0),
        (404, "cold", ["sent", "failed"], 0),
        (503, "cold", ["sent"], 0),
        (0, "cold", ["sent"], 0),
        (302, "cold", ["sent", "acknowledged"], 6),
        (410, "cold", ["sent", "refused"], 5),
        (302, "headed", [], 5),
        (503, "prefetched", [], 5),
        (500, "prefetched", ["failed"], 0),
    ],
)
def test_what_an_answer_during_a_fault_is_recorded_as(
    status: int, kind: str, recorded: list[str], redirects: int
) -> None:
    user = make_user(traffic.Follower, Client(status, {}, {}))
    user.traffic.redirects = 5
    user.follow(KEY, kind, traffic.KINDS[kind])
    records = vars(user.traffic.records)
    assert [name for name, counter in records.items() if counter] == recorded
    assert user.traffic.redirects == redirects


def make_user(user_class: Any, client: Client) -> Any:
    user = object.__new__(user_class)  # without Locust's environment
    keys = dict.fromkeys(traffic.KINDS, KEY)
    user.client, user.traffic = (
        client,
        SimpleNamespace(records=Records(), redirects=0, space="lab-12345", keys=keys, limited=None),
    )
    return user


def test_a_used_up_link_is_replaced_by_another_one_with_a_limit() -> None:
    user = make_user(traffic.LimitedFollower, Client(201, {"key": KEY}, {}))
    user.follow_limited()  # the answer 201 to its GET is recorded as a failure
    assert user.client.options["headers"]["User-Agent"] == key_space.BROWSER
    assert user.traffic.limited == KEY
    records = user.traffic.records
    assert records.sent == records.acknowledged + Counter({KEY: 1})
    assert user.create(max_hits=5) == KEY
    assert user.client.options["json"]["max_hits"] == 5
    user.client = Client(410, {}, {})
    user.follow_limited()
    assert user.traffic.limited is None


def test_redirects_before_a_fault_show_no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "CLIENT_TIMEOUT", 0)
    users = object.__new__(traffic.Traffic)  # without a service
    users.redirects = traffic.MIN_REDIRECTS
    with pytest.raises(TimeoutError, match="the load is not answered"):
        users.wait_until_at_work()


def test_a_query_that_is_not_forwarded_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        ("forwarding", "/?page=2", {}),
        ("forwarding", "/", {"query not forwarded": 1}),
        ("tagged", "/", {}),
    ]
    for kind, location, failed in answers:
        monkeypatch.setattr("random.choice", lambda _, kind=kind: kind)
        user = make_user(traffic.Follower, Client(302, {}, {"Location": location}))
        user.follow_link()
        assert user.traffic.records.failed == failed


def test_a_count_that_comes_soon_after_the_answer_is_no_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = [[make_link(hits=1)], [make_link(hits=2)]]
    for seconds, exit_code in ((60, HELD), (0, VIOLATED)):
        monkeypatch.setattr(ledger, "LATE_SECONDS", seconds)
        book = use(SCRIPT_MODULES["lost_update"], monkeypatch, *reads)
        book.records = make_records(KEY, 2, 2)
        book.on_test_stop()
        assert book.environment.process_exit_code == exit_code


def test_lost_or_failed_counts_the_exceptions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "result"
    book = use(SCRIPT_MODULES["lost_update"], monkeypatch)
    book.environment.parsed_options.ledger_file = str(file)
    book.environment.stats.log_request("POST", "x", 70, 1)
    book.on_quit()  # before a run
    assert not file.exists()
    records = Records(Counter(k=5), Counter(k=2), failed=Counter(IntegrityError=2, TypeError=1))
    for lost, expected in ((1, 3), (4, 4)):
        book.result = Result(records, Verdict(Counter(k=2), lost=Counter(k=lost)))
        book.on_quit()
        content = json.loads(file.read_text())
        assert (content["lost"], content["of"], content["failed"]) == (expected, 5, 3)
        assert (content["exit_code"], content["p99"]) == (VIOLATED, 70)


@pytest.mark.parametrize(
    ("script", "strategy", "verdict", "expected"),
    [
        ("lost_update", "f_expression", "right", [True, False, True]),
        ("lost_update", "naive", "wrong", [False, True, False]),
        ("lost_update", "f_expression_full_save", "wrong", [True, True, True]),
        ("last_use", "f_expression", "right without a limit", [True, True, True]),
        ("lost_update", "in_memory", "right without a limit", [True, False, True]),
    ],
)
def test_a_run_is_as_expected_or_not(
    script: str, strategy: str, verdict: str, expected: list[bool]
) -> None:
    run = {"script": script, "strategy": strategy, "verdict": verdict}
    assert [is_expected(run, exit_code) for exit_code in (0, 1, 2)] == expected


@pytest.mark.parametrize(
    ("answers", "errors", "acknowledged", "sent", "longest", "seconds"),
    [
        ("", "", 100, 102, "3.00ms", 0.003),
        ("  Non-2xx or 3xx responses: 30\n", "", 70, 102, "250.00us", 0.00025),
        ("", "  Socket errors: connect 1, read 2, write 3, timeout 4\n", 100, 112, "1.50s", 1.5),
        ("", "", 100, 102, "1.10m", 66),
    ],
)
def test_wrk_acknowledges_no_error(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: str,
    errors: str,
    acknowledged: int,
    sent: int,
    longest: str,
    seconds: float,
) -> None:
    latency = f"    Latency     1.00ms    2.00ms   {longest}   90.00%\n"
    total = "  100 requests in 1.00s, 15.00KB read\n"
    output = f"{latency}{total}{errors}{answers}Requests/sec:    100.00\n"
    program = tmp_path / "wrk"
    program.write_text(f"#!/bin/sh\necho $* >{tmp_path}/arguments\ncat <<'END'\n{output}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    usages = iter([(1.0, 2.0, 7), (1.5, 2.25, 8)])  # user, system, and what is no time
    monkeypatch.setattr("resource.getrusage", lambda _: next(usages))
    result = run_wrk("http://127.0.0.1/", 2, 1, "-t1")
    assert (result.acknowledged, result.sent, result.processor_seconds) == (
        acknowledged,
        sent,
        0.75,
    )
    assert result.refused == 100 - acknowledged
    assert result.longest == pytest.approx(seconds)
    arguments = (tmp_path / "arguments").read_text().split()
    assert arguments == ["-c2", "-d1s", "--timeout=30", "-t1", "http://127.0.0.1/"]


@pytest.mark.parametrize(("counted", "is_exact"), [(9, False), (10, True), (12, True), (13, False)])
def test_a_measurement_with_a_lost_or_a_repeated_hit_is_not_exact(
    counted: int, is_exact: bool
) -> None:
    result = WrkResult(acknowledged=10, refused=0, sent=12, longest=0.1, processor_seconds=0.1)
    measured = Measurement(result, counted, 2, {"service": 0.1})
    assert measured.is_exact is is_exact
    assert (measured.per_second, measured.microseconds) == (5, {"service": 10_000})


@pytest.mark.parametrize(
    ("runs", "exit_code"),  # of each run: whether it is as expected, and its exit code
    [
        ([(True, 1), (True, 0)], 0),
        ([(True, 1), (False, 1)], 1),
        ([(True, 1), (True, 2)], 2),
        ([(False, 0), (True, 2)], 1),
    ],
)
def test_one_strategy_that_is_not_as_expected_fails_all_races(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: list[tuple[bool, int]], exit_code: int
) -> None:
    names = {"script": "toctou", "strategy": "naive", "verdict": "wrong"}
    numbers = {"lost": 3, "of": 1_000, "share": 0.003, "failed": 2}
    numbers |= {"per_second": 1_500.2, "p99": 70}
    planned = [
        {**names, **numbers, "as_expected": as_expected, "exit_code": code}
        for as_expected, code in runs
    ]
    monkeypatch.setattr(races, "REPORTS", tmp_path)
    monkeypatch.setattr(races, "REPORT", tmp_path / "races.json")
    monkeypatch.setattr(races, "serving", lambda **_: nullcontext())
    plan_runs = MagicMock(return_value=planned)
    monkeypatch.setattr(races, "plan_runs", plan_runs)
    monkeypatch.setattr(races, "measure", lambda _run, _, seconds: {"outcome": f"{seconds} s"})
    monkeypatch.setattr("sys.argv", ["races", "--seconds", "9", "--only", "toctou", "naive"])
    assert races.main() == exit_code
    assert plan_runs.call_args.args[1] == ["toctou", "naive"]
    assert planned[0]["outcome"] == "9 s"
    _head, _line, *rows = races.format_table(planned).splitlines()
    assert [" NO " in row for row in rows] == [not as_expected for as_expected, _ in runs]
    cells = [cell.strip() for cell in rows[0].split("|")[1:-1]]
    assert cells[:-1] == [
        *("toctou", "naive", "⛔ wrong", "3 of 1,000 (0.3%)", "2", "1,500", "70 ms"),
    ]
    report = json.loads((tmp_path / "races.json").read_text())
    about = {"command": "make races", "left": 0, "seconds": 9, "users": 16}
    assert about.items() <= report.items()
    assert report["runs"] == planned
    assert date.fromisoformat(report["date"])


@pytest.mark.parametrize(("counted", "exit_code"), [(10, 0), (9, 1)])
def test_a_measurement_that_is_not_exact_fails_a_benchmark(
    counted: int,
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = WrkResult(acknowledged=10, refused=0, sent=10, longest=0.1, processor_seconds=0.1)
    measured = Measurement(result, counted, 1, {"service": 0.1, "PostgreSQL": 0.1})
    monkeypatch.delenv("DATABASE_URL", raising=False)  # or this one is measured
    monkeypatch.setattr("sys.argv", ["bench", "--quick"])
    measure = MagicMock(return_value=measured)
    serve = MagicMock(side_effect=lambda *_, **__: nullcontext())
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(measuring, "measure", measure)
    monkeypatch.setattr(measuring, "execute", lambda *_: 0)
    add_links, profile = MagicMock(), MagicMock(return_value="")
    monkeypatch.setattr(bench_growth, "add_links", add_links)
    monkeypatch.setattr(profiling, "profile", profile)
    monkeypatch.setattr(bench.Bench, "measure_pgbench", lambda *_: None)
    for script in (bench, bench_growth, profiling):
        monkeypatch.setattr(script, "own_postgres", lambda: nullcontext(MagicMock(url_of=str)))
        monkeypatch.setattr(script, "serving", serve)
    assert bench.main() == exit_code
    output, errors = capsys.readouterr()
    shown = ("SHORTURL_VISITS", "DATABASE_URL", "QUEUE_TIMEOUT_MS")
    assert [(*run.args, *map(run.kwargs.get, shown)) for run in serve.call_args_list] == [
        ("off", "shorturl", "20000"),
        (None, "shorturl", "20000"),
        (None, "fresh", "20000"),
        ("--worker-class=gthread", "project.wsgi:application", "off", "shorturl", "20000"),
        ("loadtests.bench:one_line", None, "shorturl", "20000"),
    ]
    assert Counter(arguments.kwargs["database"] for arguments in measure.call_args_list) == {
        "shorturl": 18,
        "fresh": 4,
    }
    assert profiling.main() == 0
    for links, arguments in zip((10_000, 1_000), profile.call_args_list, strict=True):
        scripts = {"one key": "/k1", "random keys": f"math.random({links})"}
        assert [*arguments.args[1]] == [*scripts]
        assert all(text in arguments.args[1][kind] for kind, text in scripts.items())
        assert arguments.kwargs == {"seconds": 5}
    assert errors == "bench: round 1 of 1\n"
    assert {arguments.args[4] for arguments in measure.call_args_list} == {1}  # second
    for row in (
        r"this service +\|( +10 \|){6}",
        r"service: this service +\|( +10,000 \|){6}",
        r"one line of ASGI.*?\|( +10 \|){2}( +– \|){4}",
    ):
        assert re.search(rf"^\| {row}$", output, re.MULTILINE)
    assert ("MISCOUNTED: this service" in output) is (exit_code > 0)
    assert "MISCOUNTED: one line" not in output
    measure.reset_mock()
    serve.reset_mock()
    assert bench_growth.main() == exit_code
    cases = bench_growth.CASES
    assert len({*cases}) == len(cases)
    seconds = [arguments.args[4] for arguments in measure.call_args_list]
    assert seconds == [1, bench_growth.SECONDS] * len(cases)
    workers = [arguments.kwargs["WORKERS"] for arguments in serve.call_args_list]
    assert workers == [str(case.workers) for case in cases]
    added = [arguments.args[1:] for arguments in add_links.call_args_list]
    assert (added[:3], added[-1]) == (
        [(0, 1_000), (1_000, 100_000), (100_000, 100_000)],
        (100_000, 10_000_000),
    )
    row = " | 64 | 2 | 10 | 10,000 | 10,000 | 1% | 100 | 0 | " + ("NO" if exit_code else "yes")
    assert f"| 10,000,000{row} |" in " ".join(capsys.readouterr().out.split())
    late = measured._replace(result=result._replace(longest=13.0))
    with monkeypatch.context() as patch:
        patch.setattr(measuring, "measure", lambda *_, **__: late)
        assert bench_growth.main() == 1
    monkeypatch.setattr(measuring, "execute", lambda *_: 1)  # a hit without a visit
    assert bench_growth.main() == 1
    serve.reset_mock()
    monkeypatch.setenv("DATABASE_URL", "postgres://given")
    bench_growth.main()
    given = [arguments.kwargs["DATABASE_URL"] for arguments in serve.call_args_list]
    assert given == ["postgres://given"] * len(bench_growth.CASES_OF_GIVEN)


def test_a_run_begins_without_the_records_of_the_run_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = use(SCRIPT_MODULES["lost_update"], monkeypatch)
    monkeypatch.setattr(ledger, "begin_run", None)
    ledger.records.sent[KEY] = 1
    ledger.problem, ledger.result = "no service", ledger.compare()
    ledger.on_test_start()
    assert (ledger.records, ledger.problem, ledger.result) == (Records(), "", None)
    assert ledger.run_name != "run-12345"
