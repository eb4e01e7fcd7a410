"""The project as a Django app. gunicorn runs its system checks before it serves."""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core import checks

from project.environment import variables


class ProjectConfig(AppConfig):
    """Registers the checks, and imports what workers share before they are forked."""

    name = "project"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from project.accounts import login, saving
        from project.database import database_checks  # noqa: F401

        # Replaces Django's receiver, which has the same dispatch_uid and is connected later.
        user_logged_in.connect(login.note_login, dispatch_uid="update_last_login")
        saving.replace_save()
        checks.register(check_static_files)
        checks.register(check_variable_names)
        checks.register(check_proxy)
        checks.register(check_mail, deploy=True)


def check_static_files(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    """Report missing static files: without them every page would be a 500."""
    # Only the storage of a production has this manifest, which is empty before collectstatic.
    if getattr(staticfiles_storage, "hashed_files", None) == {}:
        yield checks.Error(
            "The static files are not collected, and every page needs them.",
            hint="Run: python manage.py collectstatic --noinput",
            id="project.E001",
        )


def check_proxy(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    """Warn of a redirect loop: behind a proxy that is not trusted, no request came by HTTPS."""
    if settings.HTTPS and not settings.BEHIND_PROXY:
        yield checks.Warning(
            "HTTPS is on and BEHIND_PROXY is off: behind a proxy each page redirects to itself.",
            hint="Set BEHIND_PROXY=on if a proxy sets X-Forwarded-Proto, or else HTTPS=off.",
            id="project.W004",
        )


def check_mail(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    """Warn of e-mail in the clear to another machine: whoever reads it chooses the password."""
    is_plain = settings.EMAIL_HOST and not (settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL)
    if is_plain and settings.EMAIL_HOST not in ("localhost", "127.0.0.1", "::1"):
        yield checks.Warning(
            "EMAIL_URL sends links to a new password, and its own password, in the clear.",
            hint="Use smtp+tls:// for STARTTLS on port 587, or smtp+ssl:// for TLS on port 465.",
            id="project.W005",
        )


def check_variable_names(**kwargs: Any) -> Iterator[checks.CheckMessage]:
    """Warn of a variable that nothing reads, such as a misspelt one."""
    for name in sorted(os.environ):
        if name.startswith("SHORTURL_") and name not in variables:
            (nearest,) = get_close_matches(name, sorted(variables), n=1, cutoff=0)
            yield checks.Warning(
                f"{name} is not a setting, and is ignored.",
                hint=f"The nearest one is {nearest}.",
                id="project.W001",
            )
