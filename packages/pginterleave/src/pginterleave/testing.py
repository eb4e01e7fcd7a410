"""The common part of the pytest fixture and the test case for unittest."""

import contextlib
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pginterleave.explorer_errors import CannotExplore, InterleaveError, StepTimeout
from pginterleave.exploring import explore, run_schedule
from pginterleave.judging.judge import Invariant
from pginterleave.options import Options
from pginterleave.processes.control import Control
from pginterleave.processes.judgement import Function
from pginterleave.processes.rows import Rows
from pginterleave.processes.scheduler import MAX_PROCESSES, Setup
from pginterleave.results import Exploration, Schedule, mark_read

DEFAULT_PROCESSES = 2  # if a test gives one function
ARGUMENTS = inspect.signature(explore).parameters
# Arguments of `explore` alone.
SEARCH_LIMITS = ("count_all", "max_schedules", "max_seconds", "max_preemptions")


class Interleave(contextlib.AbstractContextManager["Interleave"]):
    """Explores the functions of each call; the end of the context restores the rows.

    With `replay`, a schedule, each call runs only this one. `shell` is a command that runs the test
    when a schedule is appended. `databases` are the aliases that the test may use; None is all. The
    `defaults` are options of calls. `explorations` and `replayed` hold the results of the calls.
    """

    def __init__(
        self,
        *,
        replay: str = "",
        shell: str = "",
        databases: Collection[str] | None = None,
        **defaults: Any,
    ) -> None:
        self.named: Any = None  # the NamedDatabases, unless the test may use all
        if databases is not None and databases != "__all__":
            # A late import: the plugin works without Django.
            from pginterleave.django.named_databases import NamedDatabases

            self.named = NamedDatabases(databases)
        self.defaults = {"count_all": False, **defaults}
        self.replay = replay
        self.shell = shell
        self.explorations: list[Exploration] = []
        self.replayed: list[Schedule] = []
        self._rows: dict[str, Rows] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Interleave":
        if self.named:
            self._stack.enter_context(self.named.refuse_others())
        with contextlib.suppress(CannotExplore):  # a call raises it again
            self._save_rows("default")
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:
            for rows in self._rows.values():
                rows.put_back()

    def __call__(
        self,
        *functions: Function,
        invariant: Invariant | None = None,
        like: Function | Sequence[Function] = (),
        setup: Setup = lambda: None,
        processes: int | None = None,
        replay: str = "",
        **options: Any,
    ) -> Exploration:
        """Run every schedule of the functions and return the result; fail if one is wrong.

        Without an invariant a schedule is wrong if it ends as no serial order does: see `explore`.

        Before each schedule the rows of all tables are restored as they are at the call, and
        `setup` runs. At the end of the test they are restored as they were when the test began.
        Before the first schedule each function runs once alone, to import, cache or connect.

        Args:
            functions: one for each process; or a single one, which all processes run.
            like: a reference for each function; or a single one, for all of them.
            processes: how many processes run a single function; 2 by default.
            replay: a schedule, such as "1212": only this one runs.

        The other arguments are those of `explore`; `count_all` is False by default.

        Raises:
            AssertionError: a schedule is wrong. Without a counterexample it is NotProven.
            InterleaveError: as for `explore`; CannotExplore if the test runs in a transaction.
        """
        __tracebackhide__ = True
        options = {**self.defaults, **options}
        default_processes: int = options.pop("processes", DEFAULT_PROCESSES)
        if unknown := [name for name in options if name not in ARGUMENTS]:
            (nearest,) = get_close_matches(unknown[0], ARGUMENTS, n=1, cutoff=0)  # at any distance
            raise CannotExplore(f"There is no argument {unknown[0]}; the nearest one is {nearest}.")
        if len(functions) == 1:
            number = processes or default_processes
            if number not in range(1, MAX_PROCESSES + 1):
                text = f"processes={number!r} is not a number from 1 to {MAX_PROCESSES}."
                raise CannotExplore(text)
            functions *= number
        elif processes:
            text = f"processes={processes} needs one function, which all processes run."
            raise CannotExplore(text)
        restorers = self._save_all_rows(options.get("using", "default"))

        def reset() -> None:
            for function in (*restorers, setup):
                function()

        references = (like,) * len(functions) if callable(like) else tuple(like)
        arguments = {**options, "invariant": invariant, "like": references, "setup": reset}
        try:
            if isinstance(options.get("using", "default"), str) and all(map(callable, functions)):
                from pginterleave.django.own_objects import give_own_objects

                # The first setup is before the first run, which may put objects into a list.
                functions, arguments["setup"] = give_own_objects(functions, reset)
            _warm_up(functions, arguments)
            if order := replay or self.replay:
                return self._replay(order, functions, arguments)
            exploration = explore(functions, **arguments)
            if self.named and self.named.refusal:  # the code has swallowed the error
                mark_read(exploration)
                raise CannotExplore(self.named.refusal)
            self.explorations.append(exploration)
            self._assert_safe(exploration)
            return exploration
        except InterleaveError as error:
            error.__traceback__ = None  # the message is enough
            if isinstance(error.__cause__, CannotExplore):
                error.__cause__ = None  # the message has its text
            raise
        finally:
            with contextlib.suppress(Exception):  # the first error is reported
                for restore in restorers:
                    restore()

    def _save_all_rows(self, using: str) -> list[Callable[[], None]]:
        """Return functions that put back the present rows of the databases, and Django's caches."""
        from pginterleave.django.caches import RowCaches

        others = [alias for alias in (self.named.aliases if self.named else ()) if alias != using]
        rows = [self._save_rows(alias) for alias in (using, *others)]
        return [*(saved.put_back for saved in rows), RowCaches(using).put_back]

    def _save_rows(self, using: str) -> Rows:
        """Return the rows of a database; the first call's are put back at the end of the test."""
        # A late import: the plugin works without Django.
        from pginterleave.django.database import DjangoDatabase

        if self.named:
            self.named.check(using)
        database = DjangoDatabase(using)
        Control(database, Options()).refuse_transaction("The test runs in a transaction of")
        if using in self._rows and not self._rows[using].has_changed():
            return self._rows[using]
        rows = Rows(database.ask)
        self._rows.setdefault(using, rows)
        return rows

    def _assert_safe(self, exploration: Exploration) -> None:
        """Fail as `exploration.assert_safe()` does, and say how to run the counterexample alone."""
        __tracebackhide__ = True
        try:
            exploration.assert_safe()
        except AssertionError as error:
            if exploration.counterexample is None:
                raise
            text = str(error)
            if order := exploration.counterexample.order:  # without a step there is no replay
                text += f"\n\nTo run {order} alone, pass replay={order!r} in this call"
                if self.shell:
                    text += f", or run\n\n    {self.shell} {order}"
            raise AssertionError(text) from None

    def _replay(
        self, order: str, functions: Sequence[Function], arguments: dict[str, Any]
    ) -> Exploration:
        """Run one schedule, with arguments of `explore`, and fail if it is wrong."""
        __tracebackhide__ = True
        arguments = {name: arguments[name] for name in arguments if name not in SEARCH_LIMITS}
        schedule = run_schedule(order, functions, **arguments)
        self.replayed.append(schedule)
        if schedule.violation:
            raise AssertionError(f"Race: {schedule.explain()}\n\nThis is the schedule {order}.")
        from pginterleave.django.shared_objects import shared_objects

        result = Exploration(
            orders=(order,),
            schedules=1,
            violating=0,
            truncated=f"replay={order!r}",
            limits=tuple(shared_objects.list_limits()),
        )
        mark_read(result)
        return result


def _warm_up(functions: Sequence[Function], arguments: dict[str, Any]) -> None:
    """Run each function once alone, with these arguments of `explore`, whatever it does."""
    names = ("setup", "using", "isolation_level")
    kept: dict[str, Any] = {name: arguments[name] for name in names if name in arguments}
    options = replace(arguments.get("options", Options()), observe=None, on_schedule=None)
    kept |= {"invariant": lambda _: None, "expected": BaseException, "options": options}
    for function in {id(function): function for function in functions}.values():  # each once
        try:
            mark_read(explore([function], **kept))
        except StepTimeout:
            raise
        except InterleaveError:  # the function may need the others; otherwise explore() raises it
            continue
