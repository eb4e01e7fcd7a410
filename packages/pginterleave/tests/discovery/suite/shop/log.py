"""A handler of the log that writes rows."""

import logging


class RowHandler(logging.Handler):
    """Writes a row for each record: its lock is held while the row is written."""

    def emit(self, record: logging.LogRecord) -> None:
        from shop.models import LogLine  # apps are loaded after the log is set up

        LogLine.objects.create(text=record.getMessage())
