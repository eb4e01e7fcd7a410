"""django-post_office: two workers send what is queued."""

from django.core.mail.backends.base import BaseEmailBackend
from post_office import mail
from post_office.mail import send_queued
from post_office.models import Email

from .finding import Finding

SENT: list[str] = []


class KeepingBackend(BaseEmailBackend):
    """Keeps what is sent."""

    def send_messages(self, email_messages):
        SENT.extend(message.subject for message in email_messages)
        return len(email_messages)


def one_mail() -> None:
    SENT.clear()
    Email.objects.all().delete()
    mail.send(
        "ada@example.com", "ben@example.com", subject="Hello", message="Hello", priority="low"
    )


def send() -> None:
    send_queued(log_level=0)


def sent_once(outcomes: object) -> str:
    return "" if len(SENT) == 1 else f"sent {len(SENT)} times"


FINDING = Finding(
    package="django-post_office",
    version="3.12.0",
    operation="`send_queued()` by two workers",
    breaks=True,
    says="Both read the queue before either has marked the mail as sent. It holds with the command "
    "`send_queued_mail` on one machine, which takes a lock on a file.",
    setup=one_mail,
    processes=[send, send],
    invariant=sent_once,
)
