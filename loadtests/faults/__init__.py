"""InjectedFault injection: what fails on purpose while everybody follows one link.

    python -m loadtests.faults

Each fault is a function in a file of its own and a row of FAULTS. The function injects the fault
into a running Experiment, and returns when the fault itself is over; the experiment then waits
until hits are counted again. After every fault: acknowledged hits ≤ counted hits ≤ requests sent.
"""

from loadtests.faults.crash_postgres import crash_postgres
from loadtests.faults.experiment import InjectedFault
from loadtests.faults.kill_worker import kill_worker
from loadtests.faults.restart_postgres import restart_postgres

FAULTS = (
    InjectedFault(
        "kill -9 of a gunicorn worker",
        kill_worker,
        must_hold="gunicorn forks another one, and the other workers go on answering",
    ),
    InjectedFault(
        "restart of PostgreSQL",
        restart_postgres,
        must_hold="requests get a 503 meanwhile, and workers reconnect by themselves",
    ),
    InjectedFault(
        "crash of PostgreSQL",
        crash_postgres,
        must_hold="the same, and every commit that was acknowledged survives the recovery",
    ),
)
