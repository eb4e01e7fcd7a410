"""A process of a race: a thread that stops before each step and waits for the scheduler."""

import contextlib
import ctypes
import inspect
import sys
import threading
import traceback
from collections.abc import Iterator
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

from pginterleave.choices import ENDED, Position
from pginterleave.explorer_errors import CannotExplore, ProcessCancelled, sqlstate
from pginterleave.formatting import format_processes
from pginterleave.processes import queries, race_coverage
from pginterleave.processes.calling_line import find_calling_frame
from pginterleave.processes.clocks import RealClock
from pginterleave.processes.control import Control
from pginterleave.processes.judgement import Function
from pginterleave.processes.session import ProcessSession
from pginterleave.steps import Outcome

# The states of a process. RETURNED: its step was blocked and has returned, and its Python is held.
IDLE, AT_STEP, RUNNING, RETURNED = "idle", "at a step", "running", "returned"
DONE, FAILED = "done", "failed"

Stops = SimpleQueue["tuple[Process, str]"]  # which processes have stopped, each with its state


class Process:
    """A thread with a database session, which takes one step whenever the scheduler resumes it."""

    def __init__(self, number: int, function: Function, control: Control, stops: Stops) -> None:
        self.number = number
        self.function = function
        self.state = IDLE
        self.step: Any = None  # the step that is next, or the last one
        self.sent: Any = None  # the step that has not returned
        self.ended: Any = None  # the last step that has returned
        self.blockers: tuple[int, ...] = ()  # the processes that it waits for
        self.blocked_since = 0.0  # by RealClock.monotonic()
        self.foreign_blockers: list[int] = []  # the other sessions that it waits for
        self.polls = 0  # how often PostgreSQL was asked whether the step waits
        self.sqlstate = self.detail = ""  # of the error of the last step
        self.deadlock_timeout = 0.0  # for the next step, in seconds; 0: the usual one
        self.timed_out = False  # whether a timeout caused the error: no NOWAIT, no cancellation
        self.sent_lines = race_coverage.Sent()
        self.outcome = Outcome()
        self.failure: BaseException | None = None
        self.sending = False  # whether it sends its step
        self.cancelled = False  # whether it has to end
        self.leaving = False  # whether its thread is about to end
        self.thread = threading.Thread(target=self._run_all, name=f"process {number}", daemon=True)
        self._go: SimpleQueue[None] = SimpleQueue()
        self._stops = stops
        self._clock_reads = control.clock_reads
        self._return_times: list[tuple[float, str]] = []  # when each step returned, with its SQL
        self.session = control.database.new_session(self, control)
        self.step_session = self.session  # the session of the next step, or of the last one

    def start(self) -> None:
        self.state = RUNNING
        self.thread.start()

    def resume(self) -> None:
        self.state = RUNNING
        self.blockers = ()
        self.foreign_blockers = []
        self.polls = 0
        self._go.put(None)

    def cancel(self) -> None:
        """End the process at its next stop, or at once if it has stopped."""
        self.cancelled = True
        self._go.put(None)

    def interrupt(self) -> None:
        """End Python code that never reaches a stop; code that hangs in C cannot be ended."""
        if self.thread.is_alive() and not self.leaving:
            ident = ctypes.c_ulong(self.thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(ProcessCancelled))

    def list_sessions(self) -> list[ProcessSession]:
        """Return the session with the explored database, and those with others."""
        return [self.session, *self.session.other_sessions]

    def list_pids(self) -> list[int]:
        return [session.pid for session in self.list_sessions() if session.pid]

    def get_position(self) -> Position:
        """Return the step that is next, or that waits, and the processes that it waits for."""
        if self.state == DONE:
            return ENDED
        if self.step is None:  # it waits before its first step, in what it sends past Django
            return Position(kind="", sql="", blockers=self.blockers)
        return Position(self.step.kind, self.step.sql, self.blockers)

    def describe(self) -> str:
        """Return a sentence on what the process does at the moment, for an error message."""
        name = f"Process {self.number}"
        if self.state == DONE:
            return f"{name} has ended."
        if self.session.connecting:
            return f"{name} is connecting to the database."
        if self.state == AT_STEP or self.sending:
            where = f"{self.step.filename}:{self.step.lineno} ({self.step.function})"
            sends = "is about to send" if self.state == AT_STEP else "has sent"
            waits = ""
            if self.blockers:
                waits = f" and waits for {format_processes(self.blockers)}"
            elif self.foreign_blockers:
                pids = ", ".join(map(str, self.foreign_blockers))
                waits = f" and waits for session {pids}, which belongs to no process"
            return f"{name} {sends} {self.step.sql!r}{waits}, at {where}."
        frame = find_calling_frame(sys._current_frames().get(self.thread.ident or 0))
        if frame is None:
            return f"{name} is in Python."
        at = traceback.extract_stack(frame, limit=1)[0]
        return f"{name} is in Python at {at.filename}:{at.lineno} ({at.name}): {at.line}"

    # From here on, everything runs in the thread of the process.

    @contextlib.contextmanager
    def take_step(self, kind: str, sql: str, params: Any) -> Iterator[SimpleNamespace]:
        """Enter to send a statement: waits until the scheduler lets the process take this step.

        Add the result to the step that is yielded. If the step was blocked and has returned, the
        process waits once more at the end, as Python runs in one process at a time.
        """
        if "SAVEPOINT" in sql:  # Django's names contain the number of the thread
            sql = sql.replace(str(threading.get_ident()), "1")
        caller = sys._getframe(2)  # contextlib is between
        self.sent_lines.note_statement(sql, caller)
        self._clock_reads.note_statement(self.number, sql, params, self._return_times)
        frame = find_calling_frame(caller)
        code = frame.f_code if frame else None
        step = self.step = SimpleNamespace(
            process=self.number,
            kind=kind,
            sql=sql,
            params=params,
            filename=code.co_filename if code else "",
            lineno=frame.f_lineno if frame else 0,
            function=code.co_qualname if code else "",
            database=self.step_session.database,
        )
        self._stop(AT_STEP)
        self.step_session.set_deadlock_timeout(self.deadlock_timeout, kind)
        self.sqlstate = self.detail = ""
        self.timed_out = False
        self.sending = True
        try:
            yield step
        except Exception as error:
            self._note_error(step, error)
            raise
        finally:
            self.sending = False
            step.in_transaction = self.step_session.has_begun()
            if self.blockers and not self.cancelled:
                self._stop(RETURNED)
            self._return_times.append((RealClock.time(), sql))

    def _note_error(self, step: SimpleNamespace, error: Exception) -> None:
        """Add an error to the step, and keep what the monitor asks for."""
        cause: Any = error.__cause__ or error
        step.error = type(cause).__name__
        step.message = next(iter(str(cause).splitlines()), "")
        self.sqlstate = sqlstate(error)
        diag = getattr(cause, "diag", None)
        step.detail = self.detail = getattr(diag, "message_detail", None) or ""
        # PostgreSQL's function for a time limit, and for a cancellation, which a user requests.
        was_interrupted = getattr(diag, "source_function", None) == "ProcessInterrupts"
        self.timed_out = was_interrupted and "user request" not in step.message

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise ProcessCancelled

    def _stop(self, state: str) -> None:
        """Report a stop in this state, and wait until the scheduler lets the process go on."""
        if not self.cancelled:
            self._stops.put((self, state))
            self._go.get()
        if self.cancelled:
            self.session.leave()  # code may swallow the exception, but must not keep its locks
            raise ProcessCancelled

    def _run_all(self) -> None:
        """Connect, and run the function in each schedule, until the process is cancelled."""
        with contextlib.suppress(ProcessCancelled):  # interrupt() may also raise it in leave()
            try:
                self.session.open()  # connects now: an error ends the exploration at its start
                while True:
                    self._stop(DONE)  # until the next schedule begins
                    self.session.open()
                    self._run_function()
                    self.session.end()
            except ProcessCancelled:
                raise
            except BaseException as error:
                self.failure = error
                self._stops.put((self, FAILED))
            finally:
                self.leaving = True
                self.session.leave()

    def _run_function(self) -> None:
        self._return_times = [(RealClock.time(), "")]
        try:
            returned = self.function()
            if inspect.iscoroutine(returned):
                returned.close()
                raise CannotExplore("an async function was called and not run: use async_to_sync")
            if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
                raise CannotExplore("a generator was called and not run: use list() or a loop")
            self.outcome = Outcome(returned=returned)
        except (ProcessCancelled, CannotExplore):
            raise
        except BaseException as error:
            self.outcome = Outcome(raised=error)
            cleared: set[int] = set()
            cause: BaseException | None = error
            # The next schedule must not see the objects in the frames.
            while cause and id(cause) not in cleared:
                cleared.add(id(cause))
                traceback.clear_frames(cause.__traceback__)
                cause = cause.__cause__ or cause.__context__


def shut_down(processes: list[Process], control: Control, error: BaseException | None) -> None:
    """End the threads and sessions of the processes; note on `error` which could not be ended."""
    time_limit = RealClock.monotonic() + control.close_timeout
    running = [process for process in processes if process.state == RUNNING]
    in_python = [process for process in running if not process.sending]
    for process in processes:
        process.cancel()
    control.terminate(_list_all_pids(running))  # this ends a process that sends a statement
    for process in in_python:
        process.interrupt()
    for process in processes:
        if process.thread.ident:
            process.thread.join(max(0.01, time_limit - RealClock.monotonic()))  # a moment at least
    still_alive = [process for process in processes if process.thread.is_alive()]
    control.terminate(_list_all_pids(still_alive))
    control.restore_settings()
    state = "may still be open"
    with contextlib.suppress(control.database.Error):
        control.wait_until_closed(*_list_all_pids(processes))
        if still_alive and not control.ask(queries.OPEN_SESSIONS, pids=_list_all_pids(still_alive)):
            state = "is closed"
    names = format_processes([process.number for process in still_alive])
    if still_alive and error:
        error.add_note(
            f"The thread of {names} could not be stopped: it is left behind as a daemon thread, "
            f"and its database session {state}."
        )


def _list_all_pids(processes: list[Process]) -> list[int]:
    """Return the pids of the sessions of these processes, and of copies of their connections."""
    return [pid for process in processes for pid in (*process.list_pids(), *process.session.copies)]
