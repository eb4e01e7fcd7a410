"""The ledger of a load test: what clients were told, beside what the service has counted.

A script makes one Ledger, and its users record every request under a name, such as a link's key.
In the scripts of this project KeySpace.send() does so:

    ledger.sent[key] += 1            # before the request
    ledger.acknowledged[key] += 1    # after the answer that it was done
    ledger.refused[key] += 1         # after the answer that nothing was done

What was sent, and neither acknowledged nor refused, has an unknown outcome: no answer, a 503, or an
answer that a proxy made up. When all users have stopped, the script's reconcile function reads what
the service has counted. For every name must hold

    acknowledged ≤ counted ≤ sent − refused

Locust's workers send their records to the master, which adds them up. The exit code is 0 if nothing
is lost, 1 if something is, and 2 if that cannot be said.
"""

import json
import time
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

from loadtests.records import Records, Result, Verdict

SERVED_AT = Path(__file__).parents[1] / ".local" / "served-at"  # the port of `make run`
USERS = 16
RUN_SECONDS = 8
STOP_TIMEOUT = 5  # seconds for the requests in flight at the end of a run
LATE_SECONDS = 1.5  # in which a strategy may count a hit after its answer
# Locust calls the Ledger's method on_NAME at each of these events.
EVENTS = ["init_command_line_parser", "init", "test_start", "test_stopping", "test_stop", "quit"]
EVENTS += ["report_to_master", "worker_report"]

# A GET of a short URL counts a hit. Locust's HTTP client would send it again when the connection is
# lost, and one hit would be counted twice.
geventhttpclient.client.IDEMPOTENT_METHODS = frozenset()


class Ledger:
    """The records of a script, and their hooks into Locust.

    `title` names what is lost. `strategy` is the default of --strategy.
    """

    def __init__(self, title: str, *, strategy: str = "") -> None:
        self.title = title
        self.strategy = strategy
        self.problem = ""  # why the run could not begin
        self.begin_run: Callable[[], None] | None = None
        self.records = Records()
        self.sent = self.records.sent
        self.acknowledged = self.records.acknowledged
        self.refused = self.records.refused
        self.result: Result | None = None  # of the last run that has ended
        self.environment: Any = None
        for name in EVENTS:
            getattr(events, name).add_listener(getattr(self, f"on_{name}"))

    def prepare(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorate the script's function that is called before each run."""
        self.begin_run = function
        return function

    def reconcile(self, function: Callable[[Records], Verdict]) -> Callable[[Records], Verdict]:
        """Decorate the script's function that reads from the service, and returns the verdict."""
        self.read_verdict = function
        return function

    def compare(self) -> Result:
        """Return the result so far. The records are copied first, as requests go on meanwhile."""
        records = deepcopy(self.records)
        nothing = Verdict(Counter(), Counter())
        if self.problem:
            return Result(records, nothing, self.problem)
        try:
            return Result(records, self.read_verdict(records))
        except requests.RequestException as error:
            return Result(records, nothing, f"unknown: {error}")

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
        gevent.sleep(0)  # brings gevent's clock up to date; else --run-time would begin too early
        if self.is_worker:  # the master's on_test_stopping() sends it "finish"
            stop = environment.runner.stop
            environment.runner.register_message("finish", lambda **_: stop(), concurrent=True)
        if environment.web_ui:
            self.add_tab(environment.web_ui)

    def on_test_start(self, **kwargs: Any) -> None:
        """Begin with empty records, and prepare the run; end it if the service does not answer."""
        self.records.take()
        self.result = None
        self.problem = ""
        host = self.environment.host
        try:
            if self.begin_run and not self.is_worker:
                self.begin_run()
        except requests.RequestException:
            self.fail(f"no service for this test answers at {host}: start it (here: `make run`)")

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

    def fail(self, problem: str) -> None:
        """End a run that cannot begin, and keep the reason for the result."""
        self.problem = problem
        runner = self.environment.runner
        gevent.spawn(runner.quit if self.environment.parsed_options.headless else runner.stop)

    def on_quit(self, **kwargs: Any) -> None:
        """Print the result of a headless run after Locust's own output, and write the file."""
        if self.result is None:
            return
        total = self.environment.stats.total
        for name, value in self.result.rows(self.title).items():
            print(f"{name:<24} {value}", flush=True)
        if path := self.environment.parsed_options.ledger_file:
            content = {
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
                rows = (self.result or self.compare()).rows(self.title)
                data = [{"what": name, "value": value} for name, value in rows.items()]
                extended = [{"key": "ledger", "data": data}]
                response.set_data(json.dumps({**response.json, "extended_stats": extended}))
            return response

        columns = [{"key": "what", "title": "Ledger"}, {"key": "value", "title": ""}]
        web_ui.template_args["extended_tabs"] = [{"title": "Ledger", "key": "ledger"}]
        web_ui.template_args["extended_tables"] = [{"key": "ledger", "structure": columns}]
        web_ui.app.after_request(add_rows)
