"""The pytest fixture `interleave`. pytest loads it in every project, so it imports no Django."""

import functools
import itertools
import shlex
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from pginterleave import coverage_plugin, results
from pginterleave.coverage_plugin import CoveragePlugin
from pginterleave.results import NotProven
from pginterleave.testing import Interleave

__all__ = ["Interleave"]

KEY = pytest.StashKey[Interleave]()
OPTIONS: dict[str, tuple[type, str]] = {
    "processes": (int, "how many processes run the function, if a test gives one"),
    "isolation_level": (str, "of the processes' transactions: 'repeatable read'"),
    "max_schedules": (int, "truncate each search after so many schedules"),
    "max_seconds": (float, "truncate each search after so many seconds"),
}
NOT_PROVEN = "not proven"
DATABASE_FIXTURES = frozenset(("db", "transactional_db", "live_server"))  # pytest-django's


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("interleave", "every schedule of concurrent database code")
    text = "run only this schedule: 1212"
    group.addoption("--interleave-replay", metavar="ORDER", default="", help=text)
    for name, (kind, text) in OPTIONS.items():
        group.addoption(_flag(name), type=kind, help=text)
    text = "go on after a violation, and count all violations"
    group.addoption("--interleave-count-all", action="store_true", default=None, help=text)
    coverage_plugin.add_options(group)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--interleave-coverage"):
        config.pluginmanager.register(CoveragePlugin(config), "interleave_coverage")
    config.addinivalue_line(
        "markers",
        "interleave(**options): options of the fixture `interleave` for this test, such as "
        'processes=3, isolation_level="repeatable read", max_schedules, count_all=True',
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pytest-django make a test database for the tests that explore, and sort them.

    pytest-django looks for the fixture `transactional_db`, which would empty every table after the
    test. The fixture has a value already, so pytest does not run it.
    """
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])
        explores = "interleave" in names or hasattr(getattr(item, "cls", None), "assertNoRace")
        is_known = item.get_closest_marker("django_db") or not DATABASE_FIXTURES.isdisjoint(names)
        if explores and not is_known and isinstance(item, pytest.Function):
            item.fixturenames = [*names, "transactional_db"]
            item.funcargs["transactional_db"] = None


@pytest.fixture
def interleave(request: pytest.FixtureRequest) -> Iterator[Interleave]:
    """Explore every schedule of some functions, and fail unless all of them are safe.

    The fixture opens the database without a transaction, and restores the rows afterwards.
    """
    database = nullcontext()
    databases = None
    if request.config.pluginmanager.hasplugin("django"):  # pytest-django
        request.getfixturevalue("django_db_setup")
        database = request.getfixturevalue("django_db_blocker").unblock()
        mark = request.node.get_closest_marker("django_db")
        databases = (mark and mark.kwargs.get("databases")) or ["default"]
    with database, _make_interleave(request.node, databases=databases) as run:
        yield run


def _make_interleave(item: pytest.Item, **options: Any) -> Interleave:
    """Return the Interleave of a test, with the options of the command line and of its marks."""
    given = {name: item.config.getoption(_flag(name)) for name in (*OPTIONS, "count_all")}
    options |= {name: value for name, value in given.items() if value is not None}
    for mark in reversed(list(item.iter_markers("interleave"))):
        options |= mark.kwargs
    shell = f"pytest {shlex.quote(item.nodeid)} --interleave-replay"
    run = Interleave(replay=item.config.getoption("--interleave-replay"), shell=shell, **options)
    item.stash[KEY] = run
    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that explores and never reads the result: it would pass in any case."""
    test_case: Any = getattr(item, "instance", None)
    if hasattr(test_case, "new_interleave"):  # InterleaveMixin's
        test_case.new_interleave = functools.partial(_make_interleave, item)
    with results.unread() as explorations:
        yield
    for exploration in explorations:
        pytest.fail(
            f"The test has not looked at the result of an exploration, in which {exploration} "
            "Call its assert_safe(), or read its violations.",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    run = item.stash.get(KEY, None) if call.when == "call" else None
    for schedule in run.replayed if run and run.replay else ():  # drawn even if all holds
        drawn = f"{item.nodeid}, schedule {schedule.order}:\n\n{schedule.draw()}"
        item.user_properties.append(("interleave", drawn))
    report = yield
    if call.excinfo and call.excinfo.errisinstance(NotProven):
        vars(report)["not_proven"] = True  # pytest-xdist sends the attribute to its controller
    if run:
        limits = [exploration.limits for exploration in run.explorations]
        vars(report)["limits"] = list(itertools.chain(*limits))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """Count a failed test that proves nothing as "not proven"."""
    if report.failed and getattr(report, "not_proven", False):
        return NOT_PROVEN, "N", (NOT_PROVEN.upper(), {"yellow": True})
    return None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report which tests are not proven or have limits, and draw what was replayed."""
    for report in terminalreporter.getreports(NOT_PROVEN):
        terminalreporter.section(f"{NOT_PROVEN}: {report.head_line}", "_", yellow=True)
        terminalreporter.line(report.longreprtext)
    limits: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("passed"):
        for limit in getattr(report, "limits", ()):
            limits.setdefault(limit, []).append(report.nodeid)
    if limits:
        terminalreporter.section("not checked in tests that passed", "-")
        for limit, (test, *more) in limits.items():
            others = f" and {len(more)} more" if more else ""
            terminalreporter.line(f"{limit}: {test}{others}")
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "interleave":
                terminalreporter.section("interleave")
                terminalreporter.line(text)


def _flag(option: str) -> str:
    return "--interleave-" + option.replace("_", "-")
