"""Two network namespaces, of a process and of PostgreSQL, with a cable between them to pull."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from loadtests.faults.experiment import Skipped

CLONE_NEWNET = 0x40000000  # of <linux/sched.h>
HERE, THERE = "10.77.0.1", "10.77.0.2"  # addresses that only the two namespaces know


class Cable:
    """A cable between this thread's namespace and another one, which is at THERE."""

    def __init__(self, there: int) -> None:
        self._there = there

    @contextmanager
    def far_end(self) -> Iterator[None]:
        """Be in the other namespace, with all that is started in the block."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _enter(self._there)
            yield
        finally:
            _enter(here)
            os.close(here)

    def pull(self) -> None:
        """Have both ends lose what they send."""
        with self.far_end():
            _ip("link set far down")

    def plug_in(self) -> None:
        """Have it carry again."""
        with self.far_end():
            _ip("link set far up")


@contextmanager
def cable() -> Iterator[Cable]:
    """Put this thread, and what it starts, in a namespace of its own for the length of the block.

    Raises Skipped where the machine cannot have one.
    """
    if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
        raise Skipped("it takes Linux, root and the command ip (apt-get install iproute2)")
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = before
    try:
        _new()
        there = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        _new()
        far = Cable(there)
        _ip(f"link add near type veth peer name far netns /proc/{os.getpid()}/fd/{there}")
        _ip(f"addr add {HERE}/24 dev near")
        _ip("link set near up")
        with far.far_end():
            _ip(f"addr add {THERE}/24 dev far")
            _ip("link set far up")
        yield far
    finally:
        _enter(before)
        for opened in {before, there}:
            os.close(opened)


def _new() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise Skipped(f"no network namespace: {os.strerror(ctypes.get_errno())}")
    _ip("link set lo up")


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _ip(command: str) -> None:
    arguments = ["ip", *command.split()]
    ended = subprocess.run(arguments, check=False, capture_output=True, text=True)  # noqa: S603
    if ended.returncode:
        raise Skipped(f"ip {command}: {ended.stderr.strip()}")
