"""What the load tests share.

    measured_operations.py  which script makes which operation race, with which strategies
    hooks.py                ties a run to Locust: options, events, workers, exit code
    crash.py                kills workers of the service during a run
    users.py                a user who records every answer
    load_run.py             a run: its key space, its ledger, its result
    lab_api.py              the lab's API, as a load run uses it
    ledger.py               the answers that clients got
    reconciliation.py       the ledger compared with the database
    result.py               the result of that, and the exit code
    proofs.py               the cases that prove it
    reports.py              a result as text and JSON
    web_tab.py              the live ledger as a tab of Locust's web UI
    comparison.py           all strategies side by side, as tables
    serving.py              starts the service for a measurement
    waiting.py              waits for a condition, with an end
    own_postgres.py         a PostgreSQL to stop and start
    own_pgbouncer.py        a PgBouncer in front of it
    own_haproxy.py          a HAProxy in front of the service

Only the scripts, users.py, hooks.py and web_tab.py import Locust, which patches the whole process.
The scripts need no package but Locust and what it brings: a container has no more.
"""
