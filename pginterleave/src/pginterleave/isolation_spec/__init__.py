"""A runner for PostgreSQL's isolation tests: `python -m pginterleave.isolation_spec FILE`.

The runner writes what isolationtester of PostgreSQL's source would write. `--expected FILE`
compares that with the expected output there. The runner needs psycopg 3. It shares no code with the
scheduler of the explorer, so that the tests can compare the two.
"""
