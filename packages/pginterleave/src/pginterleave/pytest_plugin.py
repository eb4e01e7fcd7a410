"""The pytest fixture `interleave`. pytest loads it in every project, so it imports no Django."""

import argparse
import functools
import itertools
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from pginterleave import coverage_plugin, results
from pginterleave.testing import Interleave

__all__ = ["Interleave"]

INTERLEAVE_OF_TEST = pytest.StashKey[Interleave]()
OPTIONS: dict[str, tuple[type, str]] = {
    "processes": (int, "how many processes run the function, if a test gives one"),
    "isolation_level": (str, "of the processes' transactions: 'repeatable read'"),
    "max_schedules": (int, "truncate each search after so many schedules"),
    "max_seconds": (float, "truncate each search after so many seconds"),
    "max_preemptions": (int, "run only the schedules with at most so many preemptions"),
}
NOT_PROVEN = "not proven"
# The name that pytest writes before the sentence of an error.
NAME_OF_ERROR = re.compile(
    r"^(E +|)(?:AssertionError|pginterleave\.results\.NotProven): ", re.MULTILINE
)
DATABASE_FIXTURES = frozenset(("db", "transactional_db", "live_server"))  # pytest-django's


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("interleave", "every schedule of concurrent database code")
    text = "run only this schedule: 1212; of requests with their names: 'POST shop:redeem 1212'"
    group.addoption("--interleave-replay", metavar="ORDER", default="", help=text)
    for name, (kind, text) in OPTIONS.items():
        group.addoption(_flag(name), type=kind, help=text)
    text = "go on after a violation, and count all violations"
    group.addoption("--interleave-count-all", action="store_true", default=None, help=text)
    coverage_plugin.add_options(group)
    _add_options_of_discovery(parser, group)


def _add_options_of_discovery(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    text = "explore the requests that the tests send, beside themselves and each other"
    group.addoption("--interleave-requests", action="store_true", help=text)
    text = "explore each call of this function that the tests make: shop.services.redeem"
    group.addoption("--interleave-calls", metavar="NAME", action="append", default=[], help=text)
    text = "of requests or calls: end each exploration after so many seconds (20; 0: no limit)"
    group.addoption("--interleave-seconds", type=_read_limit, default=20.0, help=text)
    text = "end all of them after so many minutes (10; 0: no limit), and list what is left"
    group.addoption("--interleave-minutes", type=_read_limit, default=10.0, help=text)
    text = "write the races, and what was explored, to this HTML file: races.html"
    group.addoption("--interleave-html", metavar="FILE", default="", help=text)
    text = "races that are accepted: `POST shop:redeem twice: a second click is harmless`"
    parser.addini("interleave_accepted", text, type="linelist")


def _read_limit(text: str) -> float:
    """Return a number of seconds or minutes; argparse writes the name of the option before."""
    with suppress(ValueError):
        if (number := float(text)) >= 0:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0, such as 20 or 0.5")


def _discovers(config: pytest.Config) -> bool:
    option = config.getoption
    return bool(option("--interleave-requests") or option("--interleave-calls"))


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Replay in one process: two workers of pytest-xdist would get the two tests of a pair."""
    if config.getoption("--interleave-replay") and _discovers(config):
        config.option.numprocesses = 0
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--interleave-coverage"):
        config.pluginmanager.register(coverage_plugin.CoveragePlugin(config), "interleave_coverage")
    discovers = _discovers(config)
    if path := config.getoption("--interleave-html"):
        if not discovers or config.getoption("--interleave-replay"):
            text = "needs --interleave-requests or --interleave-calls, without --interleave-replay"
            raise pytest.UsageError(f"--interleave-html {text}.")
        try:
            Path(path).open("a").close()  # an error now is better than one after the exploration
        except OSError as error:
            raise pytest.UsageError(f"--interleave-html {path}: {error.strerror}.") from error
    if discovers:
        if not config.pluginmanager.hasplugin("django"):
            raise pytest.UsageError("--interleave-requests needs pytest-django.")
        from pginterleave.discovery.plugin import DiscoveryPlugin

        config.pluginmanager.register(DiscoveryPlugin(config), "interleave_requests")
    config.addinivalue_line(
        "markers",
        "interleave(**options): options of the fixture `interleave` for this test, such as "
        'processes=3, isolation_level="repeatable read", max_schedules, count_all=True',
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pytest-django make a test database for the tests that explore, and sort them."""
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])
        explores = "interleave" in names or hasattr(getattr(item, "cls", None), "assertNoRace")
        is_known = item.get_closest_marker("django_db") or not DATABASE_FIXTURES.isdisjoint(names)
        if explores and not is_known and isinstance(item, pytest.Function):
            item.fixturenames = [*names, "transactional_db"]  # which pytest-django looks for
            # With a value the fixture does not run: it would empty every table after the test.
            item.funcargs["transactional_db"] = None


@pytest.fixture
def interleave(request: pytest.FixtureRequest) -> Iterator[Interleave]:
    """Explore every schedule of some functions, and fail unless all of them are safe.

    The fixture opens the database without a transaction, and restores the rows afterwards.
    """
    database = nullcontext()
    databases = None
    if request.config.pluginmanager.hasplugin("django"):  # pytest-django
        from django.conf import settings

        if not (settings.configured or os.environ.get("DJANGO_SETTINGS_MODULE")):
            pytest.fail("Set DJANGO_SETTINGS_MODULE, as in pytest.ini.", pytrace=False)
        request.getfixturevalue("django_db_setup")
        database = request.getfixturevalue("django_db_blocker").unblock()
        mark = request.node.get_closest_marker("django_db")
        databases = (mark and mark.kwargs.get("databases")) or ["default"]
    with database, _make_interleave(request.node, databases=databases) as run:
        yield run


def _make_interleave(item: pytest.Item, **options: Any) -> Interleave:
    """Return the Interleave of a test, with the options of the command line and of its marks."""
    values = {name: item.config.getoption(_flag(name)) for name in (*OPTIONS, "count_all")}
    options |= {name: value for name, value in values.items() if value is not None}
    for mark in reversed(list(item.iter_markers("interleave"))):  # the closest is the last
        options |= mark.kwargs
    shell = f"pytest {shlex.quote(item.nodeid)} --interleave-replay"
    run = Interleave(replay=item.config.getoption("--interleave-replay"), shell=shell, **options)
    item.stash[INTERLEAVE_OF_TEST] = run
    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that explores and never reads the result: it would pass in any case."""
    test_case: Any = getattr(item, "instance", None)
    if hasattr(test_case, "new_interleave"):  # InterleaveMixin's
        test_case.new_interleave = functools.partial(_make_interleave, item)
    results.unread.clear()  # what a fixture has explored
    yield
    if results.unread:
        pytest.fail(
            "The test has not looked at the result of an exploration, in which "
            f"{results.unread[0]} Call its assert_safe(), or read its violations.",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Add to a test's report whether it is not proven, what is not checked, and its drawings."""
    run = item.stash.get(INTERLEAVE_OF_TEST, None) if call.when == "call" else None
    if run and run.replay:
        for schedule in run.replayed:
            drawing = f"{item.nodeid}, schedule {schedule.order}:\n\n{schedule.draw()}"
            item.user_properties.append(("interleave", drawing))
    report = yield  # pytest-xdist sends its attributes to the controller
    crash = getattr(report.longrepr, "reprcrash", None)  # what pytest's summary shows
    if run and crash:
        crash.message = NAME_OF_ERROR.sub("", crash.message.partition("\n")[0])
    report.not_proven = bool(call.excinfo and call.excinfo.errisinstance(results.NotProven))
    limits = [exploration.limits for exploration in run.explorations] if run else []
    report.limits = list(itertools.chain(*limits))
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
        terminalreporter.line(NAME_OF_ERROR.sub(r"\1", report.longreprtext))
    passed = terminalreporter.getreports("passed")
    tests_by_limit: dict[str, list[str]] = defaultdict(list)
    for report in passed:
        for limit in getattr(report, "limits", ()):
            tests_by_limit[limit].append(report.nodeid)
    if tests_by_limit:
        terminalreporter.section("not checked in tests that passed", "-")
        for limit, (test, *other_tests) in tests_by_limit.items():
            more = f" and {len(other_tests)} more" if other_tests else ""
            terminalreporter.line(f"{limit}: {test}{more}")
    for report in passed:
        for name, text in report.user_properties:
            if name == "interleave":
                terminalreporter.section("interleave")
                terminalreporter.line(text)


def _flag(option: str) -> str:
    return "--interleave-" + option.replace("_", "-")
