"""A runner for PostgreSQL's isolation tests: `python -m pginterleave.isolation_spec FILE`.

It writes what isolationtester of PostgreSQL's source would write, so that it can be compared with
the expected output there: `--expected FILE` does. It needs psycopg 3. Nothing of it is shared with
the scheduler of the explorer: the tests compare the two with each other.
"""

from pginterleave.isolation_spec.spec import SpecError, Specification, parse

__all__ = ["SpecError", "Specification", "parse"]
