"""What a login may cost: passwords are hashed a few at a time, and wrong ones are counted by axes.

A password's hash takes a processor for a third of a second on purpose. Log-ins must not take the
threads and processors that other requests need.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone

from shorturl.outages import is_outage

MAX_HASHES = 2  # at a time in a process: a login, and the second click on its button
RETRY_AFTER = 2  # seconds: a few times what one hash takes
MAX_NAME_LENGTH = 255  # of django-axes' column

hashing = BoundedSemaphore(MAX_HASHES)
logger = logging.getLogger(__name__)


class LoginsBusy(Exception):
    """Other passwords are being hashed, or e-mails sent, at this moment."""


@contextmanager
def limited() -> Iterator[None]:
    """Keep one of the places for a hash in the block; raise LoginsBusy when none is free."""
    if not hashing.acquire(blocking=False):
        raise LoginsBusy
    try:
        yield
    finally:
        hashing.release()


class LimitedHasher(PBKDF2PasswordHasher):
    """Django's default hasher, which raises LoginsBusy beyond MAX_HASHES."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with limited():
            return super().encode(password, salt, iterations)


def busy() -> HttpResponse:
    detail = "Too many people are logging in at this moment."
    page = render_to_string("503.html", {"detail": detail, "busy": True})
    headers = {"Retry-After": str(RETRY_AFTER)}
    return HttpResponse(page, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)


def counted_name(request: HttpRequest, credentials: dict[str, Any]) -> str:
    """Return the name to count failures of, which fits into django-axes' column."""
    return str(credentials["username"])[:MAX_NAME_LENGTH]


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
