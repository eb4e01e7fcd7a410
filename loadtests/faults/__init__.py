"""Fault injection: what fails on purpose while users follow and create short URLs.

    python -m loadtests.faults

Each fault is a function in a file of its own and a row of FAULTS. The function injects the fault
into a running Experiment, and returns when the fault itself is over; the experiment then waits
until the load is answered again. After every fault: acknowledged ≤ hits ≤ sent, and nobody waited
for an answer beyond the bound.
"""

from loadtests.faults.black_hole import black_hole, proxy_before_postgres
from loadtests.faults.crash_postgres import crash_postgres
from loadtests.faults.cut_connections import cut_connections, proxy_before_service
from loadtests.faults.dead_sessions import cable_to_postgres, dead_sessions
from loadtests.faults.experiment import (
    LOCK_TIMEOUT,
    MARGIN,
    QUEUE_TIMEOUT,
    QUICK,
    REQUEST_TIMEOUT,
    RESPAWN,
    InjectedFault,
)
from loadtests.faults.frozen_postgres import frozen_postgres
from loadtests.faults.full_disk import full_disk, small_disk
from loadtests.faults.half_bodies import half_bodies
from loadtests.faults.half_headers import half_headers
from loadtests.faults.kill_answer import kill_answer
from loadtests.faults.kill_coarsening import kill_coarsening
from loadtests.faults.kill_compaction import kill_compaction
from loadtests.faults.kill_pgbouncer import kill_pgbouncer, pgbouncer_before_postgres
from loadtests.faults.kill_roll_up import appending, kill_roll_up
from loadtests.faults.kill_service import kill_service, two_services
from loadtests.faults.kill_visit_roll_up import appending_visits, kill_visit_roll_up
from loadtests.faults.kill_worker import kill_worker
from loadtests.faults.locked_row import locked_row
from loadtests.faults.overloaded import overloaded
from loadtests.faults.restart_postgres import restart_postgres
from loadtests.faults.silent_connections import silent_connections
from loadtests.faults.two_migrations import two_migrations
from loadtests.faults.unclosed_connections import unclosed_connections
from loadtests.faults.wrong_passwords import wrong_passwords

FAULTS = (
    InjectedFault(
        kill_worker,
        "kill -9 of a gunicorn worker",
        "gunicorn forks another one, and the other workers go on answering",
        QUICK,
        quick=True,
        affects=True,
        probes=False,  # one of them may have been in the worker
    ),
    InjectedFault(
        restart_postgres,
        "`pg_ctl restart -m fast`",
        "requests get a 503 meanwhile, and threads reconnect by themselves",
        QUICK,
        quick=True,
        affects=True,
    ),
    InjectedFault(
        crash_postgres,
        "`pg_ctl restart -m immediate`",
        "the same, and every commit that was acknowledged survives the recovery",
        QUICK,
        quick=True,
        affects=True,
    ),
    InjectedFault(
        locked_row,
        "another session keeps the hot row locked for 6 s",
        "other keys keep their throughput, and nobody waits longer than a second for the lock",
        LOCK_TIMEOUT + MARGIN,
        quick=True,
        affects=True,
    ),
    InjectedFault(
        half_headers,
        "32 connections send half a header and then nothing",
        "they occupy no thread, and are closed after 5 s",
        QUICK,
        quick=True,
    ),
    InjectedFault(
        half_bodies,
        "32 connections send half a body and then nothing",
        "the same",
        QUICK,
        quick=True,
    ),
    InjectedFault(
        silent_connections,
        "200 connections send nothing",
        "the same",
        QUICK,
        quick=True,
    ),
    InjectedFault(
        unclosed_connections,
        "200 clients leave the connection open after an answer that ends it",
        "nobody waits for them",
        QUICK,
        quick=True,
    ),
    InjectedFault(
        wrong_passwords,
        "16 clients post wrong passwords",
        "hashing takes no thread that redirects need",
        QUICK,
        quick=True,
    ),
    InjectedFault(
        two_migrations,
        "two `manage.py migrate` at once on an empty database",
        "both succeed",
        QUICK,
        quick=True,
    ),
    InjectedFault(
        overloaded,
        "twice and ten times as many requests arrive as can be answered",
        "what is answered stays quick, the rest gets a 503 at once, the goodput does not fall",
        QUICK,
    ),
    InjectedFault(
        frozen_postgres,
        "SIGSTOP of PostgreSQL for 20 s",
        "503 within the time limit of a request, and threads reconnect by themselves",
        REQUEST_TIMEOUT + QUEUE_TIMEOUT + MARGIN,
        affects=True,
    ),
    InjectedFault(
        black_hole,
        "a proxy between the service and PostgreSQL forwards nothing for 20 s",
        "the same",
        REQUEST_TIMEOUT + QUEUE_TIMEOUT + MARGIN,
        place=proxy_before_postgres,
        affects=True,
    ),
    InjectedFault(
        dead_sessions,
        "the network between the service and PostgreSQL loses everything for 12 s",
        "the sessions that nobody has any more end within a minute",
        REQUEST_TIMEOUT + QUEUE_TIMEOUT + MARGIN,
        place=cable_to_postgres,
        affects=True,
    ),
    InjectedFault(
        cut_connections,
        "a proxy between clients and the service cuts connections at random, 20 a second",
        "every request that was answered was counted once",
        QUICK,
        place=proxy_before_service,
        quick=True,
        affects=True,
        probes=False,  # they are cut, too
    ),
    InjectedFault(
        kill_roll_up,
        "`manage.py roll_up` eight times, kill -9 of four midway; append_only counts",
        "every hit stays where it is or is moved, and no request notices",
        QUICK,
        place=appending,
        quick=True,
    ),
    InjectedFault(
        kill_visit_roll_up,
        "the same where append_only records visits, which grow old meanwhile",
        "the visits of every link are its hits, and no request notices",
        QUICK,
        place=appending_visits,
        quick=True,
    ),
    InjectedFault(
        kill_compaction,
        "the same where old visits are of so many kinds that they are compacted",
        "the visits of every link are its hits, by each dimension, and no request notices",
        QUICK,
        place=appending_visits,
        quick=True,
    ),
    InjectedFault(
        kill_coarsening,
        "the same where hours of some days ago leave all but their devices to the day",
        "the visits of every link are its hits, by each dimension, and no request notices",
        QUICK,
        place=appending_visits,
        quick=True,
    ),
    InjectedFault(
        kill_answer,
        "kill -9 of all workers before and after a COMMIT; the same Idempotency-Key again",
        "the request is carried out once, and gets its answer",
        RESPAWN,
        affects=True,
        probes=False,  # nobody answers meanwhile
        quick=True,
    ),
    InjectedFault(
        kill_service,
        "kill -9 of one of two services on the same database",
        "the other one answers everybody",
        QUICK,
        place=two_services,
        quick=True,
        affects=True,
    ),
    InjectedFault(
        kill_pgbouncer,
        "kill -9 of a PgBouncer in transaction mode, away for a second",
        "requests get a 503 meanwhile, and threads reconnect by themselves",
        QUICK,
        place=pgbouncer_before_postgres,
        quick=True,
        affects=True,
    ),
    InjectedFault(
        full_disk,
        "no space for the write-ahead log for 3 s, then a restart",
        "the same, and every commit that was acknowledged survives",
        QUICK,
        place=small_disk,
        affects=True,
    ),
)
