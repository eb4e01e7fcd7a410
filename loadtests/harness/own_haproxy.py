"""A HAProxy in front of a service, with the limits of deploy/haproxy.cfg."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import create_server
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from loadtests.harness.own_pgbouncer import NotInstalled
from loadtests.harness.serving import ROOT
from loadtests.harness.waiting import wait_until

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin")
CONFIGURATION = ROOT / "deploy" / "haproxy.cfg"
BACKLOG = 4096  # as Linux gives it to HAProxy's own `bind`
TIMEOUT = 30  # seconds until it passes requests on


@contextmanager
def own_haproxy(service_url: str) -> Iterator[str]:
    """Yield the address of a HAProxy in front of the one machine at `service_url`.

    Its configuration is deploy/haproxy.cfg with the addresses of this machine, and with `option
    forwardfor`, which a HAProxy that clients reach directly needs. Raises NotInstalled,
    ChildProcessError or TimeoutError when it does not start.
    """
    if not HAPROXY:
        raise NotInstalled("HAProxy is not installed")
    # It inherits a listening socket: another process could take a port that was found free.
    with (
        TemporaryDirectory(prefix="haproxy-") as directory,
        create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener,
    ):
        file, number = Path(directory) / "haproxy.cfg", listener.fileno()
        port = listener.getsockname()[1]
        text = CONFIGURATION.read_text()
        text = re.sub(r" *server web-2 .*\n", "", text)
        text = text.replace("web-1:8000", urlsplit(service_url).netloc)
        text = text.replace("log stdout format raw local0 notice", "")
        file.write_text(text.replace("bind :8000", f"bind fd@{number}\n    option forwardfor"))
        command = [HAPROXY, "-db", "-q", "-f", str(file)]
        with subprocess.Popen(command, pass_fds=[number], start_new_session=True) as process:  # noqa: S603
            try:
                is_ready = partial(_passes_on, process, port)
                wait_until(is_ready, "HAProxy did not pass requests on", TIMEOUT)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()


def _passes_on(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Return whether it passes requests on; raise ChildProcessError when it has ended."""
    if process.poll() is not None:
        raise ChildProcessError("HAProxy does not start")
    with closing(HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)) as client:
        try:
            client.request("GET", "/healthz")
            return client.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
