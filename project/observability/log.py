"""What stands in the log: one line for what anybody can cause, and no flood of the same."""

import logging
import threading
import traceback
from copy import copy
from typing import TextIO

from pythonjsonlogger import json

INTERVAL = 10.0  # seconds: records of one kind are a line at once, and then one for each of these
MOST_KINDS = 100  # that are told apart at a time; what comes on top counts as one kind


def without_strangers_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of `record`, without the traceback of what anybody can cause."""
    record = copy(record)
    if record.name.startswith("django.security."):
        record.exc_info = record.exc_text = None
    return record


class LineFormatter(logging.Formatter):
    """Formats a record as one line, unless it has the traceback of a mistake of ours."""

    def format(self, record: logging.LogRecord) -> str:
        record = without_strangers_traceback(record)
        record.msg = " ".join(map(str.strip, record.getMessage().splitlines()))
        record.args = None
        return super().format(record)


class JsonFormatter(json.JsonFormatter):
    """Formats a record as one JSON object on a line, a traceback inside."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(without_strangers_traceback(record))


class SummingHandler(logging.StreamHandler[TextIO]):
    """Writes the first record of a kind at once, and sums up those that follow.

    A kind is the logger, the level and the message without its arguments, and for an exception its
    type and the lines of code that it came by.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        # How often a kind came since the last line about it, and what the newest one says.
        self.repeated: dict[int, tuple[int, dict[str, object]]] = {}
        self.timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count `record`; logging has taken the handler's lock."""
        try:
            self.write_or_count(record)
        except Exception:
            self.handleError(record)

    def write_or_count(self, record: logging.LogRecord) -> None:
        kind = kind_of(record)
        if kind not in self.repeated and len(self.repeated) >= MOST_KINDS:
            kind = record.levelno
        if kind in self.repeated:
            newest = {"name": record.name, "levelno": record.levelno, "levelname": record.levelname}
            newest["msg"] = record.getMessage()  # not the record, which holds request and traceback
            self.repeated[kind] = (self.repeated[kind][0] + 1, newest)
        else:
            self.repeated[kind] = (0, {})
            super().emit(record)
        if self.timer is None or not self.timer.is_alive():  # as in a process that was forked
            self.start_timer()

    def start_timer(self) -> None:
        """Have what is repeated from now on summed up after an interval."""
        self.timer = threading.Timer(INTERVAL, self.sum_up)
        self.timer.daemon = True
        self.timer.start()

    def sum_up(self, *, last: bool = False) -> None:
        """Write a line for each kind that was repeated, and forget those that were not."""
        if self.stream.closed:  # as the stream of a test run is at its end
            return
        with self.lock:  # type: ignore[union-attr]
            for kind, (count, newest) in list(self.repeated.items()):
                if count:
                    text = f"{newest['msg']} (the newest of {count:,} like it in {INTERVAL:g} s)"
                    super().emit(logging.makeLogRecord({**newest, "msg": text}))
                    self.repeated[kind] = (0, {})
                else:
                    del self.repeated[kind]
            if self.repeated and not last:
                self.start_timer()

    def close(self) -> None:
        """Write what was not summed up yet; logging calls this at the end of the process."""
        if self.timer is not None:
            self.timer.cancel()
        self.sum_up(last=True)
        super().close()


def kind_of(record: logging.LogRecord) -> int:
    """Return a number that the records of one kind have in common."""
    where: tuple[object, ...] = ()
    if record.exc_info:
        frames = traceback.walk_tb(record.exc_info[2])
        where = (
            record.exc_info[0],
            *((frame.f_code.co_filename, line) for frame, line in frames),
        )
    return hash((record.name, record.levelno, str(record.msg), where))
