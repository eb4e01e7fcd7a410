"""Runs the processes: one step at a time, each in a session of its own."""
