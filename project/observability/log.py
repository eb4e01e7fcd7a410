"""The log: one line for an error that any client can cause, and no flood of equal records."""

import logging
import threading
import traceback
from copy import copy
from typing import TextIO

from pythonjsonlogger import json

INTERVAL = 10.0  # seconds: after its first record, a kind has at most one line in each interval
MOST_KINDS = 100  # told apart at a time; further records are one kind per level


def without_strangers_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of `record`, without the traceback of an error that any client can cause."""
    record = copy(record)
    if record.name.startswith("django.security."):
        record.exc_info = record.exc_text = None
    return record


class LineFormatter(logging.Formatter):
    """Formats a record as one line, followed by a traceback if the service has a bug."""

    def format(self, record: logging.LogRecord) -> str:
        record = without_strangers_traceback(record)
        record.msg = " ".join(map(str.strip, record.getMessage().splitlines()))
        record.args = None
        return super().format(record)


class JsonFormatter(json.JsonFormatter):
    """Formats a record as one JSON object on a line, including a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(without_strangers_traceback(record))


class SummingHandler(logging.StreamHandler[TextIO]):
    """Writes the first record of a kind at once, and sums up those that follow.

    A kind is the logger, the level and the message without its arguments. An exception adds its
    type and the lines of its traceback.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        # By kind: the number of records since its last line, and the newest one's attributes.
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
            newest["msg"] = record.getMessage()  # the record itself holds request and traceback
            self.repeated[kind] = (self.repeated[kind][0] + 1, newest)
        else:
            self.repeated[kind] = (0, {})
            super().emit(record)
        if self.timer is None or not self.timer.is_alive():  # a fork has no timer thread
            self.start_timer()

    def start_timer(self) -> None:
        self.timer = threading.Timer(INTERVAL, self.sum_up)
        self.timer.daemon = True
        self.timer.start()

    def sum_up(self, *, last: bool = False) -> None:
        """Write a line for each kind that was repeated, and forget those that were not."""
        if self.stream.closed:  # at the end of a test run
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
        """Write the remaining sums; logging calls this at the end of the process."""
        if self.timer is not None:
            self.timer.cancel()
        self.sum_up(last=True)
        super().close()


def kind_of(record: logging.LogRecord) -> int:
    """Return a number that all records of a kind share."""
    where: tuple[object, ...] = ()
    if record.exc_info:
        frames = traceback.walk_tb(record.exc_info[2])
        where = (
            record.exc_info[0],
            *((frame.f_code.co_filename, line) for frame, line in frames),
        )
    return hash((record.name, record.levelno, str(record.msg), where))
