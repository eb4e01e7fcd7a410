"""What a login may cost: passwords are tried a few times, and hashed one at a time.

A password's hash takes half a second of a processor on purpose. Whoever sends wrong ones from many
places must not take the threads and processors that redirects need.
"""

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

RETRY_AFTER = 2  # seconds: a few times what one hash takes

# One in each worker, and LOGIN_HASHES in all workers of this machine. The file is made before the
# workers are forked, and its locks end with a process, however that ends.
_in_this_worker = threading.Lock()
with tempfile.TemporaryFile() as _file:
    _slots = os.dup(_file.fileno())  # open for as long as the process


class LoginsBusy(Exception):
    """Others are logging in at this moment, and one more has to come back."""


class LimitedBackend(ModelBackend):
    """Django's own, with a limit on how many passwords are hashed at the same time."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> Any:  # type: ignore[override]
        """Return the user, or None for wrong credentials; raise LoginsBusy past the limit."""
        with slot():
            return super().authenticate(request, **credentials)


@contextmanager
def slot() -> Iterator[None]:
    """Keep one of LOGIN_HASHES slots within the block; raise LoginsBusy when none is free."""
    if not _in_this_worker.acquire(blocking=False):
        raise LoginsBusy
    try:
        number = next(filter(taken, range(settings.LOGIN_HASHES)), None)
        if number is None:
            raise LoginsBusy
        try:
            yield
        finally:
            fcntl.lockf(_slots, fcntl.LOCK_UN, 1, number)
    finally:
        _in_this_worker.release()


def taken(number: int) -> bool:
    """Take the slot `number`, if no other process has it; return whether that was so."""
    try:
        fcntl.lockf(_slots, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        return False
    return True


def busy() -> HttpResponse:
    """Return the response to one login too many at the same time."""
    reason = "Too many people are logging in at this moment."
    return try_later("503.html", HTTPStatus.SERVICE_UNAVAILABLE, RETRY_AFTER, reason=reason)


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """Return the response to a name that had too many wrong passwords, from this address."""
    minutes = -(-settings.LOGIN_PAUSE // 60)
    return try_later(
        "429.html", HTTPStatus.TOO_MANY_REQUESTS, settings.LOGIN_PAUSE, minutes=minutes
    )


def try_later(template: str, status: HTTPStatus, seconds: int, **context: object) -> HttpResponse:
    """Return a page that says to try again after so many seconds."""
    page = render_to_string(template, context)
    return HttpResponse(page, status=status, headers={"Retry-After": str(seconds)})
