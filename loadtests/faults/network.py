"""Two network namespaces, one for the service and one for PostgreSQL, with a cable between them."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.harness.own_pgbouncer import NotInstalled

CLONE_NEWNET = 0x40000000  # of <linux/sched.h>
HERE, THERE = "10.77.0.1", "10.77.0.2"  # addresses that only the two namespaces know


class Cable:
    """A cable between this thread's namespace and the one that `there` is a descriptor of."""

    def __init__(self, there: int) -> None:
        self._there = there

    @contextmanager
    def far_end(self) -> Iterator[None]:
        """Be in the other namespace, with all that is started in the block."""
        here = _current()
        try:
            _call("setns", self._there, CLONE_NEWNET)
            yield
        finally:
            _call("setns", here, CLONE_NEWNET)
            os.close(here)

    def turn(self, state: str) -> None:
        """With "down", have both ends lose what they send; with "up", have it carried again."""
        with self.far_end():
            _ip(f"link set far {state}")


@contextmanager
def cable() -> Iterator[Cable]:
    """Put this thread, and what it starts, in a new namespace for the length of the block.

    PostgreSQL goes to the far end, where its address is THERE. Raises NotInstalled where the
    machine cannot have namespaces.
    """
    if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
        raise NotInstalled("it takes Linux, root and the command ip (apt-get install iproute2)")
    opened = [_current()]
    try:
        for _ in range(2):
            _call("unshare", CLONE_NEWNET)
            _ip("link set lo up")
            opened.append(_current())
        _, there, _ = opened
        far = Cable(there)
        _ip(f"link add near type veth peer name far netns /proc/{os.getpid()}/fd/{there}")
        _ip(f"addr add {HERE}/24 dev near")
        _ip("link set near up")
        with far.far_end():
            _ip(f"addr add {THERE}/24 dev far")
        far.turn("up")
        yield far
    finally:
        _call("setns", opened[0], CLONE_NEWNET)
        for descriptor in opened:
            os.close(descriptor)


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _call(function: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
        raise NotInstalled(f"{function}: {os.strerror(ctypes.get_errno())}")


def _ip(command: str) -> None:
    arguments = ["ip", *command.split()]
    ended = subprocess.run(arguments, check=False, capture_output=True, text=True)  # noqa: S603
    if ended.returncode:
        raise NotInstalled(f"ip {command}: {ended.stderr.strip()}")
