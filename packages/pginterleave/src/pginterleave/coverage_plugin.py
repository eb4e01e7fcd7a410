"""`pytest --interleave-coverage`: collects which lines write, and reports which were explored."""

import contextlib
import json
import sys
from typing import Any

import pytest

from pginterleave.processes import race_coverage

DATA_FILE = ".interleave-coverage.json"


def add_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--interleave-coverage",
        metavar="FOLDER",
        action="append",
        nargs="?",
        const=".",
        help="report which lines below the folder write rows, and which were explored",
    )
    text = f"add to what earlier runs have collected in {DATA_FILE}"
    group.addoption("--interleave-coverage-append", action="store_true", help=text)
    text = "fail if a smaller percentage of these lines was explored"
    group.addoption("--interleave-coverage-fail-under", type=float, default=0.0, help=text)


class CoveragePlugin:
    """Collects during a run; a worker of pytest-xdist sends what it has to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        folders = config.getoption("--interleave-coverage")
        sources = [(config.rootpath / folder).resolve() for folder in folders]
        self.recorder = race_coverage.Recorder(sources, config.rootpath)
        self.path = config.rootpath / DATA_FILE
        self.required: float = config.getoption("--interleave-coverage-fail-under")
        self.is_worker = hasattr(config, "workerinput")
        appends = config.getoption("--interleave-coverage-append") and not self.is_worker
        if appends and self.path.exists():
            self.recorder.add(json.loads(self.path.read_text()))
        race_coverage.recorder = self.recorder
        self._stack = contextlib.ExitStack()
        if config.pluginmanager.hasplugin("django"):
            from pginterleave.django.sent_statements import watch_statements

            self._stack.enter_context(watch_statements(self._note_statement))

    def _note_statement(self, sql: str, _: str) -> None:
        self.recorder.note_statement(sql, sys._getframe())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.recorder.test = nodeid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if data := getattr(node, "workeroutput", {}).get("interleave_coverage"):
            self.recorder.add(data)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        data = self.recorder.collect_data()
        if self.is_worker:
            self.config.workeroutput["interleave_coverage"] = data  # type: ignore[attr-defined]
            return
        self.path.write_text(json.dumps(data, indent=1) + "\n")
        if data["percent"] < self.required and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        data = self.recorder.collect_data()
        terminalreporter.section("race coverage")
        for line in race_coverage.write_report(data, self.config.rootpath):
            terminalreporter.line(line)
        if data["percent"] < self.required:
            terminalreporter.line(f"FAIL: {self.required:.0f} % are required.", red=True)

    def pytest_unconfigure(self) -> None:
        self._stack.close()
        race_coverage.recorder = None
