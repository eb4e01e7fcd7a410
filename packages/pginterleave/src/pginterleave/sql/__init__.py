"""Reads SQL: what a statement reads, locks and writes, and what it depends on."""
