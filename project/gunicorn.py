"""gunicorn's configuration: `gunicorn -c project/gunicorn.py` (HOST, PORT, WORKERS, THREADS)."""

import gc
import logging.config
import os
import resource
import shutil
import signal
import sys
import tempfile
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import django
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.http.request import validate_host
from psycopg2 import extensions

# Before on_starting(), Ctrl-C ends the process without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
try:
    from project import patches, settings

    if settings.SHORTURL_METRICS_TOKEN:  # prometheus_client asks for it when it is imported
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="shorturl-metrics-")
    django.setup()
    from project.database import database_checks, deadlines
except ImproperlyConfigured as error:
    sys.exit(f"gunicorn: {error}")

HOST = settings.HOST.strip("[]")
PORT = settings.PORT
URL_HOST = f"[{HOST}]" if ":" in HOST else HOST

wsgi_app = "project.asgi:application"
bind = f"{URL_HOST}:{PORT}"
workers = settings.WORKERS
worker_class = "asgi"
asgi_loop = "uvloop"
# A production has the parser in C. The one in Python keeps all that a client sends in memory.
http_parser = "auto" if settings.LOCAL else "fast"
asgi_lifespan = "off"  # the application does not support it
# The request of a client that has left is cancelled at once. Its hit is not counted if it waits.
asgi_disconnect_grace_period = 0
backlog = 4096  # connections that wait to be accepted; Linux drops further ones
keepalive = 5  # seconds
timeout = 30  # seconds until a worker that hangs is replaced
graceful_timeout = 20  # seconds that requests in flight have to finish
preload_app = True  # before the workers are forked: an error in it stops the start
control_socket_disable = True
# Django decides by BEHIND_PROXY whether to trust a proxy's headers.
forwarded_allow_ips = ""
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
loglevel = "warning"


def on_starting(server: Any) -> None:
    """Listen, check the project, and migrate a local run; exit with a message when that fails."""
    # The option logconfig_dict would format a line for each request, which is not written then.
    logging.config.dictConfig(settings.LOGGING)
    # gunicorn handles signals only later. Until then a signal would skip the exit handlers, and
    # leave the embedded PostgreSQL running.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        patches.listen(server, HOST, PORT)
    except OSError as error:
        example = "HOST=127.0.0.1 PORT=8080"
        sys.exit(f"gunicorn: cannot listen on {bind} ({error.strerror}): try {example}")
    if settings.LOCAL:  # with PORT=0 the kernel has chosen the port
        # django.setup() has copied the module `settings`, so the copy is changed.
        origin, _, _ = settings.SHORTURL_ORIGIN.rpartition(":")
        django_settings.SHORTURL_ORIGIN = f"{origin}:{server.LISTENERS[0].getsockname()[1]}"
    try:
        call_command("check", stdout=StringIO())
        if not settings.DATABASE_URL:
            from embedded_postgres import hold  # a production does not have this package

            hold()  # until this process ends, also while no worker is connected
        if settings.LOCAL:
            call_command("migrate", skip_checks=False)
        database_checks.check_at_start(server.log)
    except (CommandError, DatabaseError, ImproperlyConfigured) as error:
        sys.exit(f"gunicorn: {error}".strip())
    connections.close_all()  # a connection must not be shared over fork


def when_ready(server: Any) -> None:
    """Print the address, and let Ctrl-C finish the requests in flight as SIGTERM does."""
    signal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    # gunicorn does not limit the connections of an ASGI worker. Its limit of open files does.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    gc.collect()
    gc.freeze()  # without this, each full collection of a worker visits what the master has made
    port = server.LISTENERS[0].getsockname()[1]  # with PORT=0 the kernel has chosen it
    # `make run` sets it. `make locust` and commands read the file.
    if file := os.environ.get("SERVED_AT"):
        Path(file).write_text(f"{port}\n")
    print(f"The URL shortener is at http://{URL_HOST}:{port}/ - Ctrl-C stops it.", flush=True)
    if not validate_host(URL_HOST, settings.ALLOWED_HOSTS):
        names = ", ".join(settings.ALLOWED_HOSTS)
        print(f"It answers only to these names: ALLOWED_HOSTS={names}", flush=True)


def on_exit(server: Any) -> None:
    if file := os.environ.get("SERVED_AT"):
        Path(file).unlink(missing_ok=True)
    if settings.SHORTURL_METRICS_TOKEN:
        shutil.rmtree(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def post_worker_init(worker: Any) -> None:
    """Limit the worker's waits for PostgreSQL, leave Ctrl-C to the master, and deliver events."""
    extensions.set_wait_callback(deadlines.wait_for_answer)
    # The default of 700 objects takes a tenth of the time of redirects, which leave no cycles. A
    # page of Django leaves some, with up to 820 kB of headers: more objects would be too much.
    gc.set_threshold(5_000)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(worker, "loop"):  # not with another worker class, which serves project.wsgi
        patches.accept_bursts(worker, backlog)
        patches.keep_early_requests()
        patches.release_closed_connections()
    if settings.SHORTURL_DELIVER:  # in each worker: when one ends, the others deliver
        from shorturl.events.delivering import Deliverer

        deliverer = Deliverer(lambda: not worker.alive)  # SIGTERM ends its life
        # Its threads for deliveries are no daemons: Python waits for those under way.
        Thread(target=deliverer.run, name="deliver", daemon=True).start()


def worker_exit(server: Any, worker: Any) -> None:
    """End the deliveries of a worker that ends without a signal, because the master is gone."""
    worker.alive = False
