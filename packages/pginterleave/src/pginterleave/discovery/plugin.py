"""`pytest --interleave-requests`: the two passes as a plugin of pytest, and their results."""

import contextlib
import itertools
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from pginterleave.discovery import page, report
from pginterleave.discovery.calls import find_function, watch_calls
from pginterleave.discovery.candidates import Listener
from pginterleave.discovery.door import open_door
from pginterleave.discovery.findings import Discovery, split_names
from pginterleave.discovery.first_pass import DATABASE, FirstPass, choose_tests
from pginterleave.discovery.private_names import (
    AfterTheTests,
    allow_database,
    leave_debugger,
    run_again,
    tear_down_session,
)
from pginterleave.discovery.second_pass import ROUNDS, SecondPass
from pginterleave.discovery.surroundings import WaitLimit, entropy, prepare_to_explore
from pginterleave.discovery.undoing import describe_undoing
from pginterleave.discovery.visits import WrongSchedule
from pginterleave.django.database import DjangoDatabase
from pginterleave.django.sent_statements import watch_statements
from pginterleave.explorer_errors import CannotExplore
from pginterleave.processes.clocks import RealClock
from pginterleave.processes.rows import Rows

PROGRESS_SECONDS = 10.0  # between two lines of progress
NOT_SENT_AGAIN = "it was not sent, or wrote nothing, when the test ran once more"
MAX_WAIT_SECONDS = 60.0  # of a test that runs once more, besides its explorations


class DiscoveryPlugin:
    """Notes what the tests send, and explores it after the last test.

    A worker of pytest-xdist explores what its tests have sent, and sends its results.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.results = Discovery()
        self.accepted = report.Accepted(config.getini("interleave_accepted"))
        self.first_pass = FirstPass()
        self.listener: Listener = self.first_pass
        self.rows: Rows | None = None  # as they were before all tests; None: no database was used
        html = config.getoption("--interleave-html")
        self.html = Path(html).resolve() if html else None
        self._wrong_replay: WrongSchedule | None = None
        self._replay_obstacle = "no request was explored"
        self._has_begun = self._has_explored = False
        self._progress_at = 0.0
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(watch_statements(self.first_pass.note_statement))
        if config.getoption("--interleave-requests"):
            self._stack.enter_context(open_door(lambda: self.listener))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Refuse an unknown function, before the workers of pytest-xdist start."""
        for name in self.config.getoption("--interleave-calls"):
            find_function(name)

    def pytest_collection_finish(self) -> None:
        for name in self.config.getoption("--interleave-calls"):
            self._stack.enter_context(watch_calls(name, lambda: self.listener))

    def pytest_unconfigure(self) -> None:
        self._stack.close()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Note what a fixture sends as sent by its test, or by its class if it is for a class.

        What a fixture for several classes sends is not noted.
        """
        before = self.first_pass.test
        if fixturedef.scope != "function":
            is_for_class = fixturedef.scope == "class" and before  # "" in the second pass
            self.first_pass.test = find_group(request.node) if is_for_class else ""
        try:
            value = yield
        finally:
            self.first_pass.test = before
        if fixturedef.argname == "django_db_setup":
            self._save_rows()
        return value

    def _save_rows(self) -> None:
        """Save the rows of a new test database, which the second pass begins with."""
        with allow_database(self.config):
            try:
                self.rows = Rows(DjangoDatabase(DATABASE).ask)
            except CannotExplore as error:
                self.results.leave_out("all tests", "every request", str(error))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        """Explore after the last test, before the fixtures of the session end."""
        self._has_begun = True
        if nextitem is not None:
            return None
        # The last test runs as if another one followed, so the fixtures of the session stay.
        rest = AfterTheTests.from_parent(item.session, name="explore")
        if self.config.pluginmanager.hasplugin("timeout"):  # that of the last test began before
            item.ihook.pytest_timeout_cancel_timer(item=item)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=rest)
        try:
            if not (item.session.shouldfail or item.session.shouldstop):
                self._explore({item.nodeid: item for item in item.session.items})
        finally:
            tear_down_session(item)
        return True

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self) -> bool | None:
        """Let pytest-timeout set no timer for a test that runs once more."""
        return self._has_explored or None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.listener is self.first_pass:
            self.first_pass.test = item.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        self.first_pass.test = ""

    def _explore(self, items: dict[str, pytest.Item]) -> None:
        """Run the tests that have sent something new once more, in rounds."""
        self._has_explored = True
        sent = [traffic for entry in self.first_pass.tests.values() for traffic in entry.traffics]
        self.results.requests = len(sent)
        self.results.writing = sum(bool(traffic.writes) for traffic in sent)
        groups = {test: find_group(item) for test, item in items.items() if not explores(item)}
        chosen = choose_tests(self.first_pass.tests, groups, self.results.leave_out)
        if self.rows is None:  # no test has used the database, or it cannot be explored
            return
        option = self.config.getoption
        minutes = option("--interleave-minutes")
        passed = f"{minutes:g} minutes passed"
        names, _, order = option("--interleave-replay").rpartition(" ")
        second_pass = SecondPass(
            self.results,
            WaitLimit(MAX_WAIT_SECONDS),
            seconds=option("--interleave-seconds"),
            ends_at=RealClock.monotonic() + (60 * minutes or float("inf")),
            replay=order,
            replay_names=split_names(names) if names else frozenset(),
            requests=self.first_pass.count_writing(chosen),
            report_progress=self._report_progress,
        )
        self.listener = second_pass
        leave_debugger(self.config)
        rounds = [r for r in ROUNDS if r.preemptions == 1] if second_pass.replay else ROUNDS
        with allow_database(self.config), prepare_to_explore():
            self.rows.put_back()
            for round_, test in itertools.product(rounds, chosen):
                second_pass.begin(round_, test, groups[test], chosen[test])
                if not second_pass.has_work():
                    continue
                if second_pass.has_time():
                    self._run_again(items[test], second_pass.wait_limit)
                    if round_ == ROUNDS[0] and not second_pass.replay:
                        reason = NOT_SENT_AGAIN if second_pass.has_time() else passed
                        if second_pass.wait_limit.has_passed:
                            reason = f"when it ran once more, it took {MAX_WAIT_SECONDS:g} s"
                        others = chosen[test] - second_pass.written
                        self.results.leave_out_others(test, others, reason)
                elif round_.preemptions == 1:  # what has run with one is not left out
                    names = ", ".join(sorted(chosen[test]))
                    beside = " beside others" if round_.pairs else ""
                    self.results.leave_out(test, names + beside, passed)
        self.listener = Listener()
        groups_known = second_pass.known.values()
        updates = [update for group in groups_known for known in group for update in known.updates]
        self.results.may_undo = describe_undoing(updates, self.results.races)
        self._wrong_replay = second_pass.wrong_replay
        self._replay_obstacle = second_pass.replay_obstacle

    def _run_again(self, item: pytest.Item, wait_limit: WaitLimit) -> None:
        """Run a test, and put back the rows as they were before all tests, after Ctrl-C, too."""
        assert self.rows
        try:
            with entropy.kept_as("test"), wait_limit.set():
                run_again(item)
        finally:
            connections.close_all()
            self.rows.put_back()

    def _report_progress(self, text: str) -> None:
        """Write how far the exploration is; a worker of pytest-xdist writes its name before it."""
        capture: Any = self.config.pluginmanager.get_plugin("capturemanager")
        if capture is None or RealClock.monotonic() < self._progress_at:
            return
        self._progress_at = RealClock.monotonic() + PROGRESS_SECONDS
        if worker := getattr(self.config, "workerinput", {}).get("workerid"):
            text = f"{worker} {text}"
        with capture.global_and_fixture_disabled():
            print("\n", text, sep="", end="", file=sys.stderr, flush=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if text := getattr(node, "workeroutput", {}).get("interleave_requests"):
            self.results.add_json(text)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._has_begun and not self._has_explored:
            reason = "the run ended before the last test"
            self.results.leave_out("all tests", "every request", reason)
        if hasattr(self.config, "workerinput"):
            output = self.config.workeroutput  # type: ignore[attr-defined]
            output["interleave_requests"] = self.results.to_json()
            return
        self.accepted.accept(self.results.races)
        if self.html:
            page.write_page(self.html, self.results, self.config.rootpath.name)
        fails = bool(self.results.list_failing())
        if self.config.getoption("--interleave-replay"):  # then there are no races
            fails = bool(self._wrong_replay or self._replay_obstacle)
        if session.exitstatus == 0 and fails:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the report, and what the schedule of --interleave-replay has shown."""
        terminalreporter.section("races of requests")
        for line in report.write_report(self.results, self.accepted, self.config.get_verbosity()):
            terminalreporter.line(line)
        if self.html:
            terminalreporter.line(f"As a page: {self.html}")
        if wrong := self._wrong_replay:
            terminalreporter.line(f"{wrong.kind}: {wrong.sentence}\n\n{wrong.schedule.explain()}")
        elif replay := self.config.getoption("--interleave-replay"):
            obstacle = self._replay_obstacle.rstrip(".")
            result = f"is not replayed: {obstacle}" if obstacle else "is right"
            terminalreporter.line(f"{replay} {result}.")


def explores(item: pytest.Item) -> bool:
    """Whether a test explores by itself."""
    has_assertion = hasattr(getattr(item, "cls", None), "assertNoRace")
    return has_assertion or "interleave" in getattr(item, "fixturenames", ())


def find_group(node: Any) -> str:
    """Return the id of a test's class, or of its module."""
    parent = node.getparent(pytest.Class) or node.getparent(pytest.Module)
    return parent.nodeid if parent else ""
