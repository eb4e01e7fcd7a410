"""What the load tests share.

    options.py           the options of the scripts
    measured_operations.py  which script makes which operation race
    hooks.py             what ties a run to Locust: events, workers, exit code
    users.py             a user who records every answer
    load_run.py          a run: its key space, its ledger, its result
    lab_api.py           the lab's API, as a load run uses it
    ledger.py            the answers that clients got
    reconciliation.py    the ledger reconciled with the database: the result
    formats.py           a result as text, JSON and CSV
    web_tab.py           the live ledger as a tab of Locust's web UI
    comparison.py        all strategies side by side, as tables; page.py and charts.py as a page
    serving.py           the service, started for a measurement
    own_postgres.py      a PostgreSQL to stop and start; own_pgbouncer.py a PgBouncer before it

Only the scripts, users.py, hooks.py and web_tab.py import Locust, which patches the whole process.
What the scripts import needs no package but those that Locust brings.
"""
