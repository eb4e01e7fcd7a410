"""The shared modules of the load tests.

    measured_operations.py  which script makes which operation race, with which strategies
    hooks.py                ties a run to Locust: options, events, workers, web UI, exit code
    users.py                users that record every answer
    load_run.py             a run: its key space, its ledger, its result
    lab_api.py              the lab's API, as a load run uses it
    ledger.py               the answers that clients got
    reconciliation.py       the ledger compared with the database, and the cases that prove it
    result.py               the result of a run, and its exit code
    reports.py              a result as text and JSON
    comparison.py           all strategies side by side, as tables
    serving.py              starts the service for a measurement
    own_postgres.py         a PostgreSQL to stop and start
    own_proxies.py          a PgBouncer in front of it, and a HAProxy in front of the service

Only the scripts, users.py and hooks.py import Locust, which patches the whole process. The scripts
need only Locust and its dependencies: a container has no other packages.
"""
