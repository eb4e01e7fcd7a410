"""What a login may cost: passwords are hashed a few at a time, and wrong ones are counted by axes.

A password's hash takes a processor for a third of a second on purpose. Log-ins must not take the
threads and processors that other requests need.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

from django.contrib import messages
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from shorturl.outages import is_outage

MAX_HASHES = 2  # at a time in a process: a login, and the second click on its button
RETRY_AFTER = 2  # seconds: a few times what one hash takes
REFUSED = "You are not logged in: the account was deactivated or removed a moment ago."

hashing = BoundedSemaphore(MAX_HASHES)
logger = logging.getLogger(__name__)


class LoginsBusy(Exception):
    """Too many people are logging in at this moment."""


@contextmanager
def limit_hashes() -> Iterator[None]:
    """Allow at most MAX_HASHES threads in the block; raise LoginsBusy beyond that."""
    if not hashing.acquire(blocking=False):
        raise LoginsBusy
    try:
        yield
    finally:
        hashing.release()


class LimitedHasher(PBKDF2PasswordHasher):
    """Django's default hasher, in at most MAX_HASHES threads at a time."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with limit_hashes():
            return super().encode(password, salt, iterations)


def hash_name(request: HttpRequest, credentials: dict[str, Any]) -> str:
    """Return what axes stores of a user name, to count failures: it may be a password instead."""
    return salted_hmac(__name__, str(credentials["username"]), algorithm="sha256").hexdigest()


def note_login(sender: Any, user: User, request: HttpRequest, **more: Any) -> None:
    """Store the time of a login; undo the login if the account was just deactivated or removed.

    Then the next page says so. An outage does not refuse the login: on a cluster accounts are on
    every node, and one may be down.
    """
    active = User.objects.filter(pk=user.pk, is_active=True)
    try:
        with transaction.atomic():
            is_stored = active.update(last_login=timezone.now())
    except DatabaseError as error:
        if not is_outage(error):
            raise
        logger.warning("The time of a login by account %s is not stored: %s", user.pk, error)
        return
    if not is_stored:
        request.session.clear()  # so that the session is not stored
        messages.error(request, REFUSED, fail_silently=True)
