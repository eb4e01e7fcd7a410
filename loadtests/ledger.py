"""The ledger of a load test: what clients were told, beside what the service has counted.

A script makes one Ledger, and its users record every request under a key, such as that of a link.
In the scripts of this project KeySpace.send() does so:

    ledger.sent[key] += 1            # before the request
    ledger.acknowledged[key] += 1    # after the answer that it was done
    ledger.refused[key] += 1         # after the answer that nothing was done

What was sent, and neither acknowledged nor refused, has an unknown outcome: no answer, a 503, or an
answer that a proxy made up. When all users have stopped, the script's reconcile function reads what
the service has counted. For every key must hold

    acknowledged ≤ counted ≤ sent − refused

Nobody else may use these keys: what others do is counted, too, and hides a loss. So each run makes
keys of its own, which contain `ledger.run_name`.

Locust's workers send their records to the master, which adds them up. The exit code is 0 if nothing
is lost, 1 if something is, and 2 if that cannot be said.
"""

import inspect
import json
import logging
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import geventhttpclient.client
import requests
from flask import request
from locust import events
from locust.runners import MasterRunner, WorkerRunner

from loadtests.records import VIOLATED, Records, Result, Verdict

SERVED_AT = Path(__file__).parents[1] / ".local" / "served-at"  # the port of `make run`
USERS = 16
RUN_SECONDS = 8
STOP_TIMEOUT = 5  # seconds for the requests in flight at the end of a run
LATE_SECONDS = 1.5  # in which a strategy may count a hit after its answer
# Locust calls the Ledger's method on_NAME at each of these events.
EVENTS = ["init_command_line_parser", "init", "test_start", "test_stopping", "test_stop"]
EVENTS += ["report_to_master", "worker_report", "quitting", "quit"]

# A GET of a short URL counts a hit. Locust's HTTP client would send it again when the connection is
# lost, and one hit would be counted twice.
geventhttpclient.client.IDEMPOTENT_METHODS = frozenset()


class Ledger:
    """The records of a script, and their hooks into Locust.

    `title` names what is lost. `strategy` is the default of --strategy. `explorer` is the command
    that finds the line of the loss.
    """

    def __init__(self, title: str, *, strategy: str = "") -> None:
        self.title = title
        self.strategy = strategy
        self.explorer = "pytest --interleave-requests (pginterleave, for Django)"
        self.problem = ""  # why the run could not begin
        self.begin_run: Callable[[], None] | None = None
        self.read_verdict: Callable[[Records], Verdict] | None = None
        self.records = Records()
        self.sent = self.records.sent
        self.acknowledged = self.records.acknowledged
        self.refused = self.records.refused
        self.result: Result | None = None  # of the last run that has ended
        self.environment: Any = None
        for name in EVENTS:
            getattr(events, name).add_listener(getattr(self, f"on_{name}"))

    def prepare(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorate the script's function that is called before each run.

        The run does not begin if the function raises an exception.
        """
        self.begin_run = function
        return function

    def reconcile(self, function: Callable[[Records], Verdict]) -> Callable[[Records], Verdict]:
        """Decorate the script's function that reads from the service, and returns the verdict."""
        self.read_verdict = function
        return function

    @property
    def run_name(self) -> str:
        """The name of the run, which no other run has. All workers have it, too."""
        return str(self.environment.parsed_options.run_name)

    def compare(self) -> Result:
        """Return the result so far. The records are copied first, as requests go on meanwhile."""
        records = deepcopy(self.records)
        nothing = Verdict(Counter(), Counter())
        if self.problem or not records.sent or not self.read_verdict:
            return Result(records, nothing, self.problem)
        try:
            return Result(records, self.read_verdict(records))
        except Exception as error:
            return Result(records, nothing, f"unknown: {self.describe(error, self.read_verdict)}")

    def describe(self, error: Exception, function: Callable[..., object]) -> str:
        """Return the text of an exception, and the line of the script's function that raised it."""
        if isinstance(error, requests.ConnectionError):
            return f"no service answers at {self.environment.host}: start it"
        file = inspect.getfile(function)
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
        place = f"{Path(frame.filename).name}, line {frame.lineno}"
        return f"{error} ({type(error).__name__} in {place})"

    def rows(self) -> dict[str, str]:
        """Return the lines to show, by their names."""
        result = self.result or self.compare()
        rows = result.rows(self.title)
        if result.outcome == VIOLATED:
            endpoints = [f"{method} {name}" for name, method in self.environment.stats.entries]
            rows["find the line"] = f"{', '.join(endpoints)}: {self.explorer}"
        return rows

    @property
    def is_worker(self) -> bool:
        return isinstance(self.environment.runner, WorkerRunner)

    def on_init_command_line_parser(self, parser: Any, **kwargs: Any) -> None:
        """Add the options of a ledger, and set defaults of Locust's options."""
        if self.strategy:
            parser.add_argument("--strategy", default=self.strategy, help="the strategy to run")
        parser.add_argument(
            "--ledger-file", include_in_web_ui=False, help="write the result as JSON at the end"
        )
        port = SERVED_AT.read_text().strip() if SERVED_AT.exists() else "8000"
        parser.set_defaults(
            host=f"http://127.0.0.1:{port}",
            num_users=USERS,
            spawn_rate=USERS,
            run_time=f"{RUN_SECONDS}s",
            stop_timeout=f"{STOP_TIMEOUT}s",
            web_host="127.0.0.1",  # Locust would listen on all addresses
            master_bind_host="127.0.0.1",
        )

    def on_init(self, environment: Any, **kwargs: Any) -> None:
        """Keep the environment, and prepare a worker or the web UI."""
        self.environment = environment
        environment.parsed_options.run_name = ""
        gevent.sleep(0)  # brings gevent's clock up to date; else --run-time would begin too early
        if self.is_worker:  # the master's on_test_stopping() sends it "finish"
            stop = environment.runner.stop
            environment.runner.register_message("finish", lambda **_: stop(), concurrent=True)
        if environment.web_ui:
            self.add_tab(environment.web_ui)

    def on_test_start(self, **kwargs: Any) -> None:
        """Begin with empty records, and prepare the run; end it if that is not possible."""
        self.records.take()
        self.result = None
        self.problem = ""
        if self.is_worker:
            return
        # A master sends it to its workers, with the options of a script.
        self.environment.parsed_options.run_name = f"run-{uuid.uuid4().hex[:8]}"
        if not self.read_verdict:
            self.refuse("no function of the script has the decorator @ledger.reconcile")
        if self.begin_run:
            try:
                self.begin_run()
            except Exception as error:
                self.refuse(self.describe(error, self.begin_run))

    def on_report_to_master(self, data: dict[str, Any], **kwargs: Any) -> None:
        """On a worker, put the records since its last report into the next one."""
        data["ledger"] = self.records.take()

    def on_worker_report(self, data: dict[str, Any], **kwargs: Any) -> None:
        """On a master, add the records of a worker."""
        self.records.add(data["ledger"])

    def on_test_stopping(self, **kwargs: Any) -> None:
        """On a master, stop the workers' users and wait for their last reports.

        Locust itself asks for them only after test_stop.
        """
        runner = self.environment.runner
        if isinstance(runner, MasterRunner):
            runner.send_message("finish")
            with gevent.Timeout(2 * STOP_TIMEOUT, False):  # ends without an exception
                while runner.user_count:
                    gevent.sleep(0.1)

    def on_test_stop(self, **kwargs: Any) -> None:
        """On a worker, report the rest of the records; elsewhere reconcile."""
        runner = self.environment.runner
        if self.is_worker:
            data: dict[str, Any] = {}
            # on_report_to_master() puts them into the data.
            self.environment.events.report_to_master.fire(client_id=runner.client_id, data=data)
            runner.send_message("stats", data)
            return
        deadline = time.monotonic() + LATE_SECONDS
        result = self.compare()
        while result.lost and time.monotonic() < deadline:
            gevent.sleep(0.1)
            result = self.compare()
        self.result = result
        self.environment.process_exit_code = result.exit_code

    def refuse(self, problem: str) -> None:
        """End a run before its load begins, and keep the reason for the result."""
        logging.error(problem)
        self.problem = problem
        self.result = self.compare()
        self.environment.process_exit_code = self.result.exit_code
        runner = self.environment.runner
        gevent.spawn(runner.quit if self.environment.parsed_options.headless else runner.stop)
        raise gevent.GreenletExit  # ends the greenlet that would start the users

    def on_quitting(self, **kwargs: Any) -> None:
        """Stop a run that is interrupted, so that it has a result and an exit code."""
        if not self.is_worker:
            self.environment.runner.stop()

    def on_quit(self, **kwargs: Any) -> None:
        """Print the result of the last run after Locust's own output, and write the file."""
        if self.result is None:
            return
        total = self.environment.stats.total
        for name, value in self.rows().items():
            print(f"{name:<24} {value}", flush=True)
        if path := self.environment.parsed_options.ledger_file:
            content = {
                "run_name": self.run_name,
                "outcome": self.result.outcome,
                "exit_code": self.result.exit_code,
                "lost": max(self.result.lost, self.result.records.failed.total()),
                "of": self.result.answered,
                "failed": self.result.records.failed.total(),
                "unknown": self.result.unknown,
                "per_second": total.total_rps,
                "p99": total.get_response_time_percentile(0.99),
            }
            Path(path).write_text(json.dumps(content))

    def add_tab(self, web_ui: Any) -> None:
        """Show the ledger in the web UI, as locust/examples/extend_modern_web_ui_cache_stats.py."""

        def add_rows(response: Any) -> Any:
            if request.path.endswith("/stats/requests") and response.is_json:
                data = [{"what": name, "value": value} for name, value in self.rows().items()]
                extended = [{"key": "ledger", "data": data}]
                response.set_data(json.dumps({**response.json, "extended_stats": extended}))
            return response

        columns = [{"key": "what", "title": "Ledger"}, {"key": "value", "title": ""}]
        web_ui.template_args["extended_tabs"] = [{"title": "Ledger", "key": "ledger"}]
        web_ui.template_args["extended_tables"] = [{"key": "ledger", "structure": columns}]
        web_ui.app.after_request(add_rows)
