"""The models of the findings, whose tables a test database has."""

from . import done_once, first_rows, lost_updates, next_places  # noqa: F401
