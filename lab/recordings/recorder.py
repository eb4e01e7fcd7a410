"""Explores a cell, and records its schedules with each step."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from random import Random
from threading import current_thread
from typing import Any
from unittest import mock

from django.conf import settings
from django.db import connection

from lab.races.race import Function
from lab.recordings.cells import Cell
from lab.recordings.recording import Count, Recording
from lab.recordings.source import file_of, hash_source
from pginterleave import Exploration, Options, Outcome, Schedule, explore
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.wording import RecordedStep
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits, ShortUrl
from shorturl.strategies.exhibits.models import PartialCount
from shorturl.strategies.table import Strategy

MAX_SCHEDULES = 500  # of a cell that is recorded in full
MAX_OF_MANY = 100  # of a cell with more schedules: those with the fewest preemptions
MAX_COUNTED = 3_000  # schedules that run to count a cell; each stands for all equivalent ones
MAX_MESSAGE_LENGTH = 300
# What the clock says: the times that races set are before 2026.
CLOCK = re.compile(r"20(2[6-9]|[3-9]\d)-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+\d\d(:?\d\d)?)?")
NOW = "(now)"
# New rows get the same ids in every schedule, whatever ran before. The sequences of the tables that
# migrations fill stay as they are.
RESTART_SEQUENCES = """
    SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence
    WHERE seqrelid::regclass::text !~ '^(django_migrations|django_content_type|auth_permission)_'
"""
# A SELECT without ORDER BY returns rows in the order of the table's file. In a file that was empty
# this is the order in which they were inserted, whatever ran before.
# No foreign key of the database leads from visits and partial counts to their link.
MODELS = (ShortUrl, RecentVisits, HourlyVisits, DailyVisits, PartialCount)
TABLES = [model._meta.db_table for model in MODELS]
# Most races write one of the tables. A TRUNCATE of all takes a third of a schedule's time.
WRITTEN_TABLES = "SELECT name FROM unnest(%s) AS name WHERE pg_relation_size(name::regclass) > 0"
# An ANALYZE in the background could change a plan, and with the plan the order of the rows.
WITHOUT_ANALYZE = "; ".join(f"ALTER TABLE {name} SET (autovacuum_enabled = off)" for name in TABLES)


def record_cell(cell: Cell, *, is_counted: bool = True) -> Recording:
    """Record the schedules of a cell; if `is_counted`, explore it once before to count them."""
    counted = None
    if is_counted:
        counted = cell.race.explore(
            cell.strategy, cell.processes, isolation_level=cell.level, max_schedules=MAX_COUNTED
        )
    return _Recorder(cell).record(counted if counted and not counted.truncated else None)


class _Recorder:
    """Collects the schedules of a cell while they run."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.initial = ""
        self.schedules: list[dict[str, Any]] = []
        self.second_tries: list[Schedule] = []  # of the schedule that runs
        self.file = str(file_of(cell.strategy))
        self.randoms: dict[str, Random] = {}  # by process, so that each recording has the same keys

    def record(self, counted: Exploration | None) -> Recording:
        """Run and record the schedules; `counted` is an earlier exploration with their count.

        Without one, at most MAX_OF_MANY run, and these alone are counted.
        """
        cell = self.cell
        is_small = counted and counted.schedules <= MAX_SCHEDULES
        with connection.cursor() as cursor:
            cursor.execute(WITHOUT_ANALYZE)
        with mock.patch("secrets.choice", self._choose):
            result = replace(cell.race, setup=self._setup).explore(
                cell.strategy,
                cell.processes,
                run_second_try=self._record_second_try,
                isolation_level=cell.level,
                options=Options(observe=cell.race.rows, on_schedule=self._add_schedule),
                max_schedules=MAX_SCHEDULES if is_small else MAX_OF_MANY,
            )
        counted = counted or result
        self.schedules.sort(key=itemgetter("order"))
        return Recording(
            cell=cell,
            count=Count(
                violating=counted.violating,
                schedules=counted.schedules,
                refused=counted.raising,
                truncated=bool(counted.truncated),
                source=hash_source(cell.strategy),
            ),
            counterexample=counted.counterexample.order if counted.counterexample else "",
            initial=self.initial,
            steps=self._replace_steps_by_positions(),
            schedules=self.schedules,
        )

    def _replace_steps_by_positions(self) -> list[RecordedStep]:
        """Replace each step by its position in the list of all different steps; return the list."""
        positions: dict[str, int] = {}  # by the text of a step
        for schedule in self.schedules:
            for text in schedule["steps"]:
                positions.setdefault(text, len(positions))
            schedule["steps"] = [positions[text] for text in schedule["steps"]]
        return [json.loads(text) for text in positions]

    def _setup(self, strategy: Strategy) -> None:
        """Make the first rows of a schedule, with the same ids as in every other one."""
        self.second_tries.clear()
        self.randoms.clear()
        with connection.cursor() as cursor:
            cursor.execute(RESTART_SEQUENCES)
            cursor.execute(WRITTEN_TABLES, [TABLES])
            for (name,) in cursor.fetchall():
                cursor.execute(f"TRUNCATE {name}")
        self.cell.race.setup(strategy)
        self.initial = self.initial or str(self.cell.race.rows())

    def _choose(self, characters: str) -> str:
        """Draw a character of a key, in place of secrets.choice()."""
        process = current_thread().name
        random = self.randoms.setdefault(process, Random(process))  # noqa: S311
        return random.choice(characters)

    def _record_second_try(self, number: int, function: Function) -> Outcome:
        """Run a second try as an exploration of one schedule, and keep its steps."""
        # Before it are processes that do nothing, so that it keeps the number of its process.
        idle_processes: list[Function] = [lambda: None] * (number - 1)
        explore(
            [*idle_processes, function],
            invariant=lambda _: "",  # the race checks it afterwards
            expected=Exception,
            isolation_level=self.cell.level,
            options=Options(observe=self.cell.race.rows, on_schedule=self.second_tries.append),
        )
        return self.second_tries[-1].outcomes[-1]

    def _add_schedule(self, schedule: Schedule) -> None:
        """Add a schedule that has run, and its second tries; a step is a text of JSON."""
        steps = list(self._list_steps(schedule))
        for second_try in self.second_tries:
            steps_of_second_try = list(self._list_steps(second_try, steps_before=len(steps)))
            steps_of_second_try[0]["alone"] = True  # marks where a second try begins
            steps += steps_of_second_try
        texts = [json.dumps(_sort_names(step), ensure_ascii=False) for step in steps]
        self.schedules.append(
            {
                "order": schedule.order,
                "violation": schedule.violation,
                "raises": schedule.raises,
                "outcomes": [_describe_exception(outcome.raised) for outcome in schedule.outcomes],
                "steps": [CLOCK.sub(NOW, text) for text in texts],
            }
        )

    def _list_steps(self, schedule: Schedule, steps_before: int = 0) -> Iterator[RecordedStep]:
        """Yield the steps of a schedule, each with the file of its code, as JSON objects.

        A step has a line only if its file is the strategy's. In a second try `until`, the number of
        the step at which a wait ends, counts the `steps_before`, too.
        """
        for recorded, step in zip(record_steps(schedule.timeline), schedule.timeline, strict=True):
            recorded["until"] += steps_before
            recorded["line"] = step.lineno if step.filename == self.file else 0
            path = Path(step.filename)
            if path.is_relative_to(settings.BASE_DIR):
                path = path.relative_to(settings.BASE_DIR)  # it was to the working directory
                recorded["where"] = f"{path}:{step.lineno}" if recorded["line"] else f"{path}"
            yield recorded


def _sort_names(value: Any) -> Any:
    """Return JSON whose objects have short names first, such as `id` and `key`, as pictures do."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(name), name))
        return {name: _sort_names(value[name]) for name in names}
    if isinstance(value, list | tuple):
        return [_sort_names(item) for item in value]
    return value


def _describe_exception(error: BaseException | None) -> str:
    """Return an exception in one line, without what PostgreSQL adds about its processes."""
    if error is None:
        return ""
    text = re.sub(r"\s+", " ", str(error).partition("DETAIL:  Process")[0]).strip()
    return f"{type(error).__name__}: {CLOCK.sub(NOW, text)}"[:MAX_MESSAGE_LENGTH]
