"""gunicorn's configuration: `gunicorn -c project/gunicorn.py` (HOST, PORT, WORKERS, THREADS)."""

import atexit
import gc
import logging
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
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
    if os.getpid() == of:  # the master; workers end before it
        rmtree(directory)


# Before on_starting(), Ctrl-C ends the process without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
# Django refuses statements on an event loop, as they would block it. The statements of redirects do
# not: project/database/greenlets.py.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "on"
try:
    from project import patches
    from project.database import deadlines
    from project.environment import number, text
    from project.observability.log import SummingHandler
    from project.settings import (
        ALLOWED_HOSTS,
        DATABASE_URL,
        LOCAL,
        LOG_FORMAT,
        SERVED_AT,
        SHORTURL_DELIVER,
        SHORTURL_METRICS_TOKEN,
        WORKERS,
    )

    if SHORTURL_METRICS_TOKEN:  # prometheus_client asks for the directory when it is imported
        _counts = os.environ["PROMETHEUS_MULTIPROC_DIR"] = mkdtemp(prefix="shorturl-metrics-")
        atexit.register(_forget_counts, _counts, of=os.getpid())
    django.setup()
    HOST = text("HOST", default="127.0.0.1")
    # With 0 the kernel chooses a free port. when_ready() prints it.
    PORT = number("PORT", default=8000, most=65_535)
    workers = WORKERS
except ImproperlyConfigured as error:
    sys.exit(f"gunicorn: {error}")

# Seconds after which the kernel ends a connection whose client reads nothing of an answer.
SEND_TIMEOUT = 10

wsgi_app = "project.asgi:application"
bind = f"{HOST}:{PORT}"
worker_class = "asgi"
asgi_loop = "uvloop"
# gunicorn_h1c, the parser in C, if it is installed; otherwise gunicorn's own in Python.
http_parser = "auto"
asgi_lifespan = "off"  # the application does not support it
# The request of a client that has left is cancelled at once. Its hit is not counted if it still
# waits.
asgi_disconnect_grace_period = 0
# Connections that wait to be accepted: as many as Linux allows by default. Linux drops any further
# one, and its client tries again after a second.
backlog = 4096
keepalive = 5  # seconds
timeout = 30  # seconds until a worker that hangs is replaced
graceful_timeout = 20  # seconds that requests in flight have to finish
# Load the application once, before the workers are forked: an error in it stops the start.
preload_app = True
control_socket_disable = True
# Only Django decides, by BEHIND_PROXY, whether to trust a proxy's header about the scheme. By
# default gunicorn trusts every client on this machine.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
forwarder_headers = ""
errorlog = "-"  # stderr; project/observability/log.py sums up repeated records
loglevel = "warning"


def on_starting(server: Any) -> None:
    """Check the project; in a local run, keep the embedded PostgreSQL running, and migrate it."""
    log: Any = logging.getLogger("gunicorn.error")
    for handler in list(log.handlers):
        summing = SummingHandler(handler.stream)
        json = LOG_FORMAT == "json"
        summing.setFormatter(
            logging.getLogger().handlers[0].formatter if json else handler.formatter
        )
        log.removeHandler(handler)
        log.addHandler(summing)
    # gunicorn handles signals only later. Until then a signal would skip the exit handlers, and
    # leave the embedded PostgreSQL running.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    listen(server)
    try:
        call_command("check", stdout=StringIO())
        if not DATABASE_URL:
            from embedded_postgres import hold  # a production does not have this package

            hold()  # until this process ends, also while no worker is connected
        if LOCAL:
            call_command("migrate")  # one process at a time; the others find nothing to do
        else:
            warn_of_missing_migrations(server)
        check_database(server)
    except (CommandError, ImproperlyConfigured) as error:
        sys.exit(f"gunicorn: {error}")
    except OperationalError as error:
        sys.exit(f"gunicorn: the database is unavailable: {error}".strip())
    connections.close_all()  # a connection must not be shared over fork


def check_database(server: Any) -> None:
    """Run the checks of `manage.py check --database default`; raise CommandError for an error.

    A database that is down causes only a warning. The service starts, and serves when the database
    is back.
    """
    found = checks.run_checks(tags=[checks.Tags.database], databases=["default"])
    if errors := [str(each) for each in found if each.is_serious()]:
        raise CommandError("\n".join(errors))
    for each in found:
        server.log.warning("%s %s", each.msg, each.hint or "")


def warn_of_missing_migrations(server: Any) -> None:
    """Warn of missing migrations. A system check would also warn in `migrate`, which runs it."""
    from project.database.database_checks import bounded
    from project.observability.health import missing_migrations

    with suppress(Error), bounded():
        if missing := missing_migrations():
            server.log.warning("Migrations are not applied: %s. Run manage.py migrate.", missing)


def listen(server: Any) -> None:
    """Listen before the migration; print one line and exit when that fails.

    gunicorn would listen later, and print eleven lines in five seconds for a port in use. Requests
    wait until the workers have started.
    """
    if {"GUNICORN_FD", "LISTEN_FDS"} & os.environ.keys():
        return  # a new master takes over the sockets of the old one or of systemd
    try:
        listener = TCPSocket((HOST, PORT), server.cfg, server.log)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux; connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SEND_TIMEOUT * 1000)
            # By default the kernel buffers up to 4 MB for each client that reads nothing.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 64 * 1024)
        patches.listen_at(server, listener)
    except OSError as error:
        sys.exit(
            f"gunicorn: cannot listen on {HOST}:{PORT} ({error.strerror}): "
            "choose another address, for example HOST=127.0.0.1 PORT=8080"
        )


def when_ready(server: Any) -> None:
    """Print the address, and let Ctrl-C finish the requests in flight as SIGTERM does."""
    signal.signal(signal.SIGINT, _terminate)
    # gunicorn does not limit the connections of an ASGI worker. Its limit of open files does.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Objects made before the fork stay. Without this, each full collection visits all of them.
    gc.collect()
    gc.freeze()
    port = server.LISTENERS[0].getsockname()[1]
    if not DATABASE_URL:
        with suppress(OSError):  # for commands that print a link
            SERVED_AT.parent.mkdir(mode=0o700, exist_ok=True)
            SERVED_AT.write_text(f"{os.getpid()} {port}")
    print(f"The URL shortener is at http://{HOST}:{port}/ – Ctrl-C stops it.", flush=True)
    if not validate_host(HOST, ALLOWED_HOSTS):
        names = ", ".join(ALLOWED_HOSTS)
        print(f"It answers only to these names: ALLOWED_HOSTS={names}", flush=True)


def _terminate(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def post_worker_init(worker: Any) -> None:
    """Bound the worker's waits for PostgreSQL; leave Ctrl-C to the master, which ends it."""
    deadlines.install()
    # Requests leave almost no cycles. By default they would be looked for after 700 new objects.
    gc.set_threshold(50_000)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(worker, "loop"):  # not with another worker class, which serves project.wsgi
        patches.accept_bursts(worker, backlog)
    if SHORTURL_DELIVER:  # in each worker: when one ends, the others deliver
        from shorturl.events.delivering import Deliverer, deliver_next

        Thread(target=Deliverer(deliver_next).run, name="deliver", daemon=True).start()


def child_exit(server: Any, worker: Any) -> None:
    """Remove the connections of a worker that has ended from the metrics."""
    if SHORTURL_METRICS_TOKEN:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
