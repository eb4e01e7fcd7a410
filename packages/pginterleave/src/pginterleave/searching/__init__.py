"""Searches all schedules: which one runs next, and which are equivalent."""
