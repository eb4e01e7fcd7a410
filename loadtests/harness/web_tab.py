"""The live ledger as a tab of Locust's web UI, by Locust's own extension points.

https://docs.locust.io/en/stable/extending-locust.html: `template_args` adds the tab and its table,
and the rows are sent with the statistics that the page requests every two seconds.
"""

from __future__ import annotations

import json
from typing import Any

from flask import request

from loadtests.harness import reports
from loadtests.harness.load_run import LoadRun
from loadtests.harness.measured_operations import OPERATIONS

KEY = "ledger"


def add_tab(web_ui: Any, load: LoadRun) -> None:
    """Show the ledger of `load` in the web UI."""

    def add_rows(response: Any) -> Any:
        if request.path.endswith("/stats/requests") and response.is_json:
            data = [{"what": name, "value": value} for name, value in rows(load)]
            content = {**response.json, "extended_stats": [{"key": KEY, "data": data}]}
            response.set_data(json.dumps(content))
        return response

    columns = [{"key": "what", "title": "Ledger"}, {"key": "value", "title": ""}]
    web_ui.template_args["extended_tabs"] = [{"title": "Ledger", "key": KEY}]
    web_ui.template_args["extended_tables"] = [{"key": KEY, "structure": columns}]
    web_ui.app.after_request(add_rows)


def rows(load: LoadRun) -> list[tuple[str, str]]:
    """Return what the tab shows: the current run so far, or the result of the last one."""
    if not load.result and not load.ledger.sent:
        return [("outcome", load.problem or "no requests yet: start a run")]
    result = load.result or load.reconciled()
    outcome = reports.sentence(result) if load.result else "still running"
    # The ledger is read before the database. So a hit that is missing there is lost, but a hit that
    # is not acknowledged yet may belong to a request in flight: it is not shown as counted twice.
    # A visit that is missing may still come, from a second transaction.
    hidden = "" if load.result else OPERATIONS[result.operation].doubled
    shown = [row for row in reports.rows(result) if row[0] != hidden]
    proofs = [("proof", "; ".join(case)) for case in result.proofs]
    return [("strategy", result.strategy), ("outcome", outcome), *shown, *proofs]
