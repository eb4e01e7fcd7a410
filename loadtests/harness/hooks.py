"""The connection of a load run to Locust: options, events, workers, web UI and exit code.

Locust runs in one process, or in a master and its workers. Each process with users keeps a ledger,
and the master merges what the workers report. When a run stops, no user begins another request and
all requests in flight are waited for, here or in the workers; then the ledger is complete.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
import psutil
from flask import request
from locust import events
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner
from locust.stats import StatsEntry

from loadtests.harness import reports
from loadtests.harness.ledger import Ledger
from loadtests.harness.load_run import FINISH_TIMEOUT, POLL_INTERVAL, LoadRun
from loadtests.harness.measured_operations import OPERATIONS
from loadtests.harness.result import ExitCode

# Half as many users as `make run` has threads. With more, the editor would get less of the
# service's time. docs/load-tests.md has the measurements.
USERS = 16
SECONDS = 8
STOP_TIMEOUT = 5  # seconds for a request in flight when the number of users is lowered
TOLERANCE = 1  # seconds by which a run may be shorter than --run-time, as starting takes time
EDIT = "/lab/edit/KEY"  # the requests of one user, which do not count for the throughput
TAB = "ledger"


class Hooks:
    """The options and listeners of a load run, and its tab in the web UI."""

    def __init__(self, load: LoadRun) -> None:
        self.load = load
        load.timing = self.timing
        self.running = False
        self.environment: Any = None
        self.runner: Any = None
        self._workers: set[str] = set()
        self._finished: set[str] = set()
        for name in (
            *("init_command_line_parser", "init", "test_start", "test_stopping", "test_stop"),
            *("quitting", "quit", "report_to_master", "worker_report"),
        ):
            getattr(events, name).add_listener(getattr(self, f"on_{name}"))

    def on_init_command_line_parser(self, parser: Any, **kwargs: Any) -> None:
        """Add the options, and set defaults for Locust's, so that none is required."""

        def add(name: str, text: str, **details: Any) -> None:
            parser.add_argument(name, help=text, **details)

        operation = OPERATIONS[self.load.operation]
        if names := operation.strategies:
            text = "the strategy to run"
            add("--strategy", text, choices=names, default=operation.default)
        text = "faults are injected on purpose: an unavailable service is expected"
        add("--faults", text, action="store_true")
        only_here: dict[str, Any] = {"include_in_web_ui": False}
        text = "the directory for the result as text, JSON and Locust's HTML"
        add("--reports", text, metavar="DIRECTORY", default="reports", **only_here)
        text = "half-way, kill -9 a worker of the gunicorn with this process id"
        add("--kill-worker-of", text, metavar="PID", type=int, **only_here)
        text = "kill so many workers, up to 10, one after another, evenly spread over the run"
        numbers = range(1, 11)
        add("--kills", text, metavar="NUMBER", type=int, choices=numbers, default=1, **only_here)
        parser.set_defaults(
            host="http://127.0.0.1:8000",
            num_users=USERS,
            spawn_rate=USERS,
            run_time=f"{SECONDS}s",
            stop_timeout=f"{STOP_TIMEOUT}s",
            # Locust would listen on all of the machine's addresses.
            web_host="127.0.0.1",
            master_bind_host="127.0.0.1",
        )

    @property
    def is_worker(self) -> bool:
        return isinstance(self.runner, WorkerRunner)

    def on_init(self, environment: Any, **kwargs: Any) -> None:
        """Store the runner; without workers, check at once whether a run is possible."""
        self.environment, self.runner = environment, environment.runner
        environment.load = self.load  # where the users find it
        self.load.options = options = environment.parsed_options
        if environment.web_ui:
            self.check_port(environment.web_ui)
            self.add_tab(environment.web_ui)
        if self.is_worker:
            self.runner.register_message("finish", self.on_finish, concurrent=True)
            return
        if options.headless:
            self.prepare_reports()
        if isinstance(self.runner, MasterRunner):
            self.runner.register_message("finished", self.on_finished)
        elif options.headless:
            self.open()
            if self.load.problem:
                sys.exit(ExitCode.INCONCLUSIVE)

    def prepare_reports(self) -> None:
        """Make the directory of the reports, or exit; have Locust write its HTML report there."""
        directory, load = Path(self.load.options.reports), self.load
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            print(f"{load.script}: --reports {directory}: {error.strerror}", file=sys.stderr)
            sys.exit(ExitCode.INCONCLUSIVE)
        html = reports.path(directory, load.script, load.strategy, ".html")
        load.options.html_file = load.options.html_file or str(html)

    def check_port(self, web_ui: Any) -> None:
        """Exit if the web UI cannot listen, as Locust would with tracebacks."""
        try:
            socket.create_server((web_ui.host, web_ui.port)).close()
        except OSError as error:
            said = f"{self.load.script}: --web-port {web_ui.port}: {error.strerror}"
            print(f"{said}: choose another, such as LOCUST_WEB_PORT=8090", file=sys.stderr)
            sys.exit(ExitCode.INCONCLUSIVE)

    def open(self) -> None:
        """Open a key space at the host, which the web form may have changed; print a problem."""
        load = self.load
        load.host = self.environment.host or ""
        if (users := load.options.num_users) < load.users:
            load.problem = f"{users} users cannot race: use --users {load.users} or more"
        else:
            load.open()
        if load.problem:
            print(f"{load.script}: {load.problem}", file=sys.stderr, flush=True)

    def on_test_start(self, **kwargs: Any) -> None:
        """Begin a run, and tell the workers its key space."""
        load = self.load
        self._workers, self._finished = self.living(), set()
        if self.is_worker:
            load.given, load.problem = load.options.given, load.options.problem
        else:
            self.running = True
            if not load.opened:
                self.open()
            # The master sends its options to the workers.
            load.options.given, load.options.problem = load.given, load.problem
            if load.problem:
                gevent.spawn(self.runner.quit if load.options.headless else self.runner.stop)
        load.begin()
        if load.options.kill_worker_of and not self.is_worker:
            gevent.spawn(self.kill_workers)

    def kill_workers(self) -> None:
        """Kill as many of the service's workers as `options.kills`, evenly spread over the run.

        The worker with the most connections is killed, as one worker may have all of them. It is
        chosen half a pause before it is killed: the search among processes stops all users, and the
        worker would answer their requests meanwhile.
        """
        options = self.load.options
        pause = options.run_time / (options.kills + 1)
        try:
            for _ in range(options.kills):
                gevent.sleep(pause / 2)
                workers = psutil.Process(options.kill_worker_of).children()
                victim = max(workers, key=lambda worker: len(worker.net_connections("tcp")))
                gevent.sleep(pause / 2)
                if self.load.stopping:
                    return
                victim.kill()
        except (psutil.Error, ValueError):
            self.load.problem = "--kill-worker-of is not the process id of a gunicorn with workers"

    # --- Workers ---------------------------------------------------------------------------------

    def on_report_to_master(self, client_id: str, data: dict[str, Any]) -> None:
        data["ledger"] = self.load.ledger.as_data()
        self.load.ledger = Ledger()

    def on_worker_report(self, client_id: str, data: dict[str, Any]) -> None:
        self._workers.add(client_id)
        self.load.ledger.merge(Ledger.from_data(data["ledger"]))

    def on_finish(self, **kwargs: Any) -> None:
        """Drain at the master's request; send it the rest of the ledger and of Locust's figures."""
        self.load.drain(self.runner.client_id)
        data: dict[str, Any] = {}
        self.environment.events.report_to_master.fire(client_id=self.runner.client_id, data=data)
        self.runner.send_message("stats", data)
        self.runner.send_message("finished")

    def on_finished(self, msg: Any, **kwargs: Any) -> None:
        self._finished.add(msg.node_id)

    def finish_workers(self) -> None:
        self._workers |= self.living()
        self.runner.send_message("finish")
        with gevent.Timeout(FINISH_TIMEOUT, False):
            while (self._workers - self._finished) & self.living():
                gevent.sleep(POLL_INTERVAL)
        if gone := len(self._workers - self._finished):
            self.load.problem = self.load.problem or f"the ledgers of {gone} workers are lost"

    def living(self) -> set[str]:
        """Return the workers whose heartbeats this master receives."""
        clients = getattr(self.runner, "clients", {})
        return {name for name in clients if clients[name].state != STATE_MISSING}

    def timing(self) -> dict[str, float]:
        """Return Locust's figures for all requests but edits: seconds, and p50, p95, p99 in ms."""
        total = StatsEntry(self.environment.stats, "", "")
        for entry in self.environment.stats.entries.values():
            if entry.name != EDIT:
                total.extend(entry)
        seconds = (total.last_request_timestamp or total.start_time) - total.start_time
        shares = {f"p{percent}": percent / 100 for percent in (50, 95, 99)}
        times = {name: total.get_response_time_percentile(share) for name, share in shares.items()}
        return {"seconds": seconds, **times}

    # --- The web UI ------------------------------------------------------------------------------

    def add_tab(self, web_ui: Any) -> None:
        """Show the live ledger, by Locust's own extension points.

        https://docs.locust.io/en/stable/extending-locust.html: `template_args` adds the tab and its
        table, and the rows are sent with the statistics that the page requests every two seconds.
        """

        def add_rows(response: Any) -> Any:
            if request.path.endswith("/stats/requests") and response.is_json:
                data = [{"what": name, "value": value} for name, value in self.tab_rows()]
                content = {**response.json, "extended_stats": [{"key": TAB, "data": data}]}
                response.set_data(json.dumps(content))
            return response

        columns = [{"key": "what", "title": "Ledger"}, {"key": "value", "title": ""}]
        web_ui.template_args["extended_tabs"] = [{"title": "Ledger", "key": TAB}]
        web_ui.template_args["extended_tables"] = [{"key": TAB, "structure": columns}]
        web_ui.app.after_request(add_rows)

    def tab_rows(self) -> list[tuple[str, str]]:
        """Return the rows for the current run so far, or for the last result."""
        load = self.load
        if not load.result and not load.ledger.sent:
            return [("outcome", load.problem or "no requests yet: start a run")]
        result = load.result or load.reconciled()
        outcome = reports.sentence(result) if load.result else "still running"
        # The ledger is read before the database. So a hit that is missing there is lost. A hit that
        # is not acknowledged yet may belong to a request in flight, so none is shown as counted
        # twice. A missing visit may still be recorded by a second transaction.
        hidden = "" if load.result else OPERATIONS[result.operation].doubled
        shown = [row for row in reports.rows(result) if row[0] != hidden]
        proofs = [("proof", f"{case} {'; '.join(requests)}") for case, *requests in result.proofs]
        return [("strategy", result.strategy), ("outcome", outcome), *shown, *proofs]

    # --- The end ---------------------------------------------------------------------------------

    def on_test_stopping(self, **kwargs: Any) -> None:
        """Complete the ledger before Locust stops any user."""
        if not isinstance(self.runner, MasterRunner):
            self.load.drain(self.runner.client_id)
        elif self.running:
            self.finish_workers()

    def on_test_stop(self, **kwargs: Any) -> None:
        """Reconcile, and set the exit code of Locust."""
        if not self.running:
            return
        self.running = False
        load, asked = self.load, self.load.options.run_time
        if load.options.headless and asked and load.elapsed < asked - TOLERANCE:
            load.problem = load.problem or f"cut short after {load.elapsed:.0f} of {asked} seconds"
        self.environment.process_exit_code = int(load.finish().exit_code)
        if not load.options.headless:
            load.tell()

    def on_quitting(self, environment: Any, **kwargs: Any) -> None:
        """Finish a run interrupted by Ctrl-C, and remove its key space."""
        if self.is_worker:
            self.on_finish()
            return
        if self.running:
            self.runner.stop()
        self.load.close()
        if environment.process_exit_code is None and environment.parsed_options.headless:
            environment.process_exit_code = int(ExitCode.INCONCLUSIVE)

    def on_quit(self, **kwargs: Any) -> None:
        """Print the result of a headless run after Locust's output."""
        if self.load.options.headless:
            self.load.tell()
