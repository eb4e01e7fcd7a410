"""What a login may cost: passwords are tried a few times, and hashed a few at a time.

A password's hash takes half a second of a processor on purpose. Wrong passwords from many places
must not take the threads and processors that redirects need. Wrong passwords from one network must
not keep users of other networks from logging in. django-axes counts failures by name and by the
first address of the network. It has no limit on hashes at the same time, and its response has no
Retry-After.
"""

import fcntl
import logging
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from http import HTTPStatus
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils import timezone

from shorturl.limits.client_address import client_address, first_address, hashed_network
from shorturl.outages import is_outage

RETRY_AFTER = 2  # seconds: a few times what one hash takes
HASHES_MAX = 32  # the most LOGIN_HASHES, which is half of at most 64 WORKERS
NAME_MAX = 255  # characters
NETWORKS = 1024  # groups of networks, drawn by their hash: two networks rarely share one

logger = logging.getLogger(__name__)

# Each place is a byte of a file that all workers of this machine share. First come LOGIN_HASHES
# places, then one for each group of networks. The file is made before the workers are forked. The
# kernel releases a lock on it when the process ends, however it ends. A lock belongs to a process
# and not to a thread, so `_held` has the places that threads of this process hold.
with tempfile.TemporaryFile() as _file:
    _places = os.dup(_file.fileno())  # open for as long as the process
_held: set[int] = set()
_holding = threading.Lock()


class LoginsBusy(Exception):
    """No place is free: other passwords are being hashed, or e-mails sent, at this moment."""


class LimitedBackend(ModelBackend):
    """Django's ModelBackend, with a limit on how many passwords are hashed at the same time."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> Any:  # type: ignore[override]
        """Return the user, or None for wrong credentials; raise LoginsBusy past the limit."""
        with place_to_hash(request):
            return super().authenticate(request, **credentials)


def limited(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Wrap a view whose POST hashes a password."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with place_to_hash(request) if request.method == "POST" else nullcontext():
            return view(request, *args, **kwargs)

    return wrapped


@contextmanager
def place_to_hash(request: HttpRequest | None) -> Iterator[None]:
    """Keep one of LOGIN_HASHES places within the block; raise LoginsBusy when none is free.

    A network has one place at a time, so that a flood from it leaves the others free.
    """
    address = client_address(request) if request else None
    network = int(hashed_network(address, settings.SECRET_KEY), 16) % NETWORKS
    with place([HASHES_MAX + network]), place(range(settings.LOGIN_HASHES)):
        yield


@contextmanager
def place(numbers: Iterable[int]) -> Iterator[None]:
    """Keep the first free place of these within the block; raise LoginsBusy when none is free."""
    number = next(filter(take, numbers), None)
    if number is None:
        raise LoginsBusy
    try:
        yield
    finally:
        with _holding:
            _held.remove(number)
            fcntl.lockf(_places, fcntl.LOCK_UN, 1, number)


def take(number: int) -> bool:
    """Take the place `number` if it is free; return whether it was."""
    with _holding:
        if number in _held:
            return False
        try:
            fcntl.lockf(_places, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            return False
        _held.add(number)
        return True


def note_login(sender: Any, user: User, **more: Any) -> None:
    """Store the time of a login; neither an outage nor the account's removal refuses the login.

    On a cluster accounts are on every node, and one node may be down. Django would save the
    account, and raise an error if it was removed since the password was checked.
    """
    try:
        with transaction.atomic():
            User.objects.filter(pk=user.pk).update(last_login=timezone.now())
    except DatabaseError as error:
        if not is_outage(error):
            raise
        logger.warning("The time of a login by account %s is not stored: %s", user.pk, error)


def busy() -> HttpResponse:
    detail = "Too many people are logging in at this moment."
    context = {"detail": detail, "busy": True}
    return try_later("503.html", HTTPStatus.SERVICE_UNAVAILABLE, RETRY_AFTER, context)


def counted_name(_: HttpRequest, credentials: dict[str, Any]) -> str:
    """Return the name to count failures of, which fits into django-axes' column.

    A user's name is shorter.
    """
    return str(credentials["username"])[:NAME_MAX]


def locked_out(request: HttpRequest, _: Any, credentials: dict[str, Any]) -> HttpResponse:
    name, network = counted_name(request, credentials), first_address(request)
    failures = AccessAttempt.objects.filter(username=name, ip_address=network)
    last = failures.aggregate(at=Max("attempt_time"))["at"] or timezone.now()
    until = last + settings.AXES_COOLOFF_TIME
    seconds = max(math.ceil((until - timezone.now()).total_seconds()), 1)
    context = {"until": until, "minutes": math.ceil(seconds / 60)}
    return try_later("429.html", HTTPStatus.TOO_MANY_REQUESTS, seconds, context)


def try_later(
    template: str, status: HTTPStatus, seconds: int, context: dict[str, object]
) -> HttpResponse:
    page = render_to_string(template, context)
    return HttpResponse(page, status=status, headers={"Retry-After": str(seconds)})
