"""Load tests: the races against the running service, over HTTP and nothing else.

    lost_update.py    many users follow one hot key
    toctou.py         many users create in a small key space
    hot_and_cold.py   the service's own endpoints, in a realistic mix
    races.py          every strategy, one after the other, and one report: `make races`

    ledger.py         what the clients were told
    verdict.py        the ledger held against the database
    lab.py            the lab's API, as a load run uses it
    result.py         a verdict as text, JSON and CSV
    load_run.py       a run: its key space, its ledger, its verdict
    hooks.py          what ties a run to Locust: events, workers, exit code
    users.py          a user who notes every answer
    web_tab.py        the live ledger as a tab of Locust's web UI
    report.py         what `make races` found, as a table; page.py and charts.py as a page

Only the scripts, users.py, hooks.py and web_tab.py import Locust, which patches the whole process.
"""
