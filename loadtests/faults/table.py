"""The table of faults: what is done, what must hold, and the longest wait allowed."""

from functools import partial

from loadtests.faults import clients, network, postgres, service
from loadtests.faults.experiment import MARGIN, REQUEST_TIMEOUT
from loadtests.faults.experiment import KindOfFault as Fault
from loadtests.faults.open_loop import overload

# Seconds, as in docs/monitoring.md.
QUEUE_TIMEOUT, LOCK_TIMEOUT = 0.5, 1.0
RESPAWN = 10.0  # seconds for gunicorn to replace all workers, and for them to import Django
# If PostgreSQL does not answer, a request ends within this time.
NO_DATABASE = REQUEST_TIMEOUT + QUEUE_TIMEOUT + MARGIN

RECONNECTS = "requests get a 503 meanwhile, and the service reconnects without a restart"
NO_THREAD = "they occupy no thread, and no other request waits for them"
SURVIVES = "every acknowledged commit survives"

# fmt: off
FAULTS = (
    Fault("kill_worker", "kill -9 of a gunicorn worker",
          "gunicorn forks another one, and the other workers go on answering",
          service.kill_worker, affects=True, probes=False),  # the worker may have a probe
    Fault("kill_service", "kill -9 of one of two services on the same database",
          "the other one answers all requests",
          service.kill_service, service.two_services, affects=True),
    Fault("kill_answer",
          "kill -9 of all workers before and after a COMMIT; the same Idempotency-Key again",
          "the request is carried out once, and gets its answer", service.kill_answer,
          bound=RESPAWN, affects=True, probes=False),  # all workers are killed

    Fault("crash_postgres", "`pg_ctl restart -m immediate`", f"{RECONNECTS}; {SURVIVES}",
          postgres.crash, affects=True),
    Fault("frozen_postgres", "SIGSTOP of PostgreSQL for 20 s",
          "503 within the time limit of a request, and the service reconnects without a restart",
          postgres.freeze, bound=NO_DATABASE, affects=True),
    Fault("full_disk", "no space for the write-ahead log for 3 s, then a restart",
          f"{RECONNECTS}; {SURVIVES}",
          postgres.fill_disk, postgres.small_disk, affects=True),
    Fault("read_only", "all transactions of PostgreSQL are read-only for 3 s",
          "requests get a 503 meanwhile, and /readyz answers 503",
          postgres.read_only, affects=True),
    Fault("locked_row", "another session keeps the hot row locked for 6 s",
          "other keys keep their throughput; no request waits longer than a second for the lock",
          postgres.lock_row, bound=LOCK_TIMEOUT + MARGIN, affects=True),
    Fault("kill_visit_roll_up",
          "`manage.py roll_up` eight times, kill -9 of four midway; visits grow old meanwhile",
          "the visits of every link are its hits, and no request is affected",
          postgres.roll_ups),

    Fault("dead_sessions",
          "the network between the service and PostgreSQL loses everything for 12 s",
          "PostgreSQL's sessions whose client is gone end within a minute",
          network.unplug, network.cable_to_postgres, bound=NO_DATABASE, affects=True),
    Fault("kill_pgbouncer", "kill -9 of a PgBouncer in transaction mode, away for a second",
          RECONNECTS, network.kill_pgbouncer, network.pgbouncer_before_postgres, affects=True),
    Fault("cut_connections",
          "a proxy between clients and the service cuts connections at random, 20 a second",
          "every request that was answered was counted once",
          network.cut_connections, network.proxy_before_service,
          affects=True, probes=False),  # probes are cut as well

    Fault("silent_connections", "500 connections send half a header or nothing", NO_THREAD,
          clients.left_open),
    Fault("half_bodies", "200 connections send half a body and then nothing",
          f"{NO_THREAD}; they are closed after 5 s, with a 408",
          partial(clients.closed, data=clients.HALF_BODY, status=b"408",
                  within=clients.RECEIVE_TIMEOUT + clients.SILENCE)),
    Fault("half_bodies_haproxy",
          "600 clients of HAProxy send a part of a short or of a long body, and then nothing",
          "HAProxy has connections left for all others, and no other request waits for them",
          clients.half_bodies, clients.haproxy_before_service),
    Fault("unclosed_connections",
          "200 clients leave the connection open after an answer that ends it",
          "the service closes it, and no other request waits for them",
          partial(clients.closed, data=clients.LAST_REQUEST)),
    Fault("slow_readers", "200 clients ask for a file ten times a second, and read nothing",
          "no other request waits for them, and their connections end within 22 s",
          clients.unread),
    Fault("wrong_passwords", "16 clients post wrong passwords",
          "hashing takes no thread that redirects need", clients.wrong_passwords),
    Fault("overloaded",
          "2 and 10 times as many requests arrive as can be answered, and no proxy limits them",
          "nothing is lost, and the goodput does not fall; how long a request waits has no limit",
          partial(overload, multiples=(2, 10), bounded=False),
          bound=None, probes=False),  # probes wait in the kernel's queue as well
    Fault("overloaded_haproxy", "the same through HAProxy with the limits of deploy/haproxy.cfg",
          "what is answered stays quick, the rest gets a 503 at once, the goodput does not fall",
          partial(overload, multiples=(2, 10)), clients.haproxy_before_service),
)
# fmt: on
