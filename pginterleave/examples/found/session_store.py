"""Django: two requests of one visitor put different things into the session."""

from functools import partial

from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from .finding import Finding

KEY = "found0123456789abcdef0123456789a"


def begin() -> None:
    Session.objects.all().delete()
    SessionStore(KEY).save(must_create=True)


def put(name: str) -> None:
    """Do what the middleware does around a view that says `request.session[name] = 1`."""
    session = SessionStore(KEY)
    session[name] = 1
    session.save()


def both_are_kept(outcomes: object) -> str:
    kept = sorted(SessionStore(KEY).load())
    return "" if kept == ["cart", "language"] else f"only {kept} kept"


FINDING = Finding(
    package="Django",
    version="6.1.3",
    operation="`SessionStore.save()` of one session, with two keys",
    breaks=True,
    says="A session is read and written as a whole: what the other request has put in is lost. "
    "It holds where one request at a time writes to a session.",
    setup=begin,
    processes=[partial(put, "cart"), partial(put, "language")],
    invariant=both_are_kept,
)
