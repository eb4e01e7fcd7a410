"""Imports the models of the findings, so that the test database has their tables."""

from . import done_once, first_rows, lost_updates, next_places  # noqa: F401
