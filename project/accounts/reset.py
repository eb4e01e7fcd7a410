"""A forgotten password: a user requests an e-mail with a link to set another one.

The answer is the same, and takes as long, whether or not an account has the address. When it has
left, a thread looks for the accounts and sends the e-mails.
"""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.forms import PasswordResetForm
from django.contrib.auth.models import User
from django.core.mail import EmailMessage
from django.db import connection
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse_lazy
from django.views.generic import FormView

from project.accounts.login import LoginsBusy
from project.accounts.passwords import link_of
from shorturl.exceptions import TooManyCreates
from shorturl.limits.quotas import give_back, spend

MAILS_PER_DAY = 3  # to one account: anybody can request them
MAILERS = 1  # threads of each worker, with a connection to PostgreSQL while they work
# Seconds from a request until its e-mails. A thread that works while the request is answered would
# delay that answer, or the next one, by more the longer its work takes.
PAUSE = 1.0
WAITING = 100  # requests of a worker whose e-mails are not sent yet

logger = logging.getLogger(__name__)

mailers = ThreadPoolExecutor(MAILERS, "mail")
room = BoundedSemaphore(WAITING)


class ResetPassword(FormView):  # type: ignore[type-arg]
    """The page on which a user requests an e-mail with a link."""

    form_class = PasswordResetForm
    template_name = "accounts/reset.html"
    success_url = reverse_lazy("password_reset_done")

    def form_valid(self, form: Any) -> HttpResponse:
        """Have a thread send the e-mails; raise LoginsBusy when too many wait."""
        if not room.acquire(blocking=False):
            raise LoginsBusy
        begin = time.monotonic() + PAUSE
        sending = mailers.submit(send_links, form.cleaned_data["email"], begin)
        sending.add_done_callback(lambda _: room.release())
        return super().form_valid(form)


def send_links(email: str, begin: float) -> None:
    """Send a link to each account that has the address, and log what fails.

    `begin` is when to begin, by time.monotonic().
    """
    time.sleep(max(0, begin - time.monotonic()))
    try:
        for account in PasswordResetForm().get_users(email):
            with suppress(TooManyCreates):
                send_link(account)
    except Exception:  # the thread's result is never read
        logger.exception("Links to a new password are not sent")
    finally:
        connection.close()


def send_link(account: User) -> None:
    """Send a link to the account; raise TooManyCreates after MAILS_PER_DAY; failures cost none."""
    spender = f"mail {account.pk}"
    spend(spender, lambda: None, limit=MAILS_PER_DAY)
    link = link_of(account)
    context = {"account": account, "link": link, "host": urlsplit(link).netloc}
    subject = render_to_string("accounts/reset_subject.txt", context).strip()
    body = render_to_string("accounts/reset_mail.txt", context)
    try:
        EmailMessage(subject, body, to=[account.email]).send()
    except Exception:  # backends raise errors of many kinds
        logger.exception("No link to a new password is sent to account %s", account.pk)
        give_back(spender)
