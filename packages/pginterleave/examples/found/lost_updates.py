"""Two processes change the same row or value: is one of the changes lost?"""

from functools import partial

import reversion
from concurrency.exceptions import RecordModifiedError
from concurrency.fields import IntegerVersionField
from django.contrib.auth.models import Group, User
from django.contrib.flatpages.models import FlatPage
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.db import models
from reversion.models import Revision, Version
from star_ratings.models import Rating, UserRating

from .finding import Finding, empty, equal

CACHE = Finding(
    package="Django",
    operation="`DatabaseCache.incr()` of one key, twice",
    breaks=True,
    says="It reads, adds and writes: one increment is lost. Django's documentation says that "
    "a backend without an atomic increment reads and writes in two steps.",
    setup=lambda: caches["database"].set("visits", 0),
    processes=[lambda: caches["database"].incr("visits")] * 2,
    invariant=equal(2, lambda: caches["database"].get("visits"), "visits = {}"),
)

KEY = "found0123456789abcdef0123456789a"


def begin_session() -> None:
    empty(Session)
    SessionStore(KEY).save(must_create=True)


def put(name: str) -> None:
    """Do the work of the middleware around a view that sets `request.session[name] = 1`."""
    session = SessionStore(KEY)
    session[name] = 1
    session.save()


SESSION = Finding(
    package="Django",
    operation="`SessionStore.save()` of one session, with two keys",
    breaks=True,
    says="A session is read and written as a whole: the key of the other request is lost. It holds "
    "if one request at a time writes to a session.",
    setup=begin_session,
    processes=[partial(put, "cart"), partial(put, "language")],
    invariant=equal(["cart", "language"], lambda: sorted(SessionStore(KEY).load()), "only {} kept"),
)


def two_users() -> None:
    empty(UserRating, Rating, User, Group)
    User.objects.create(username="ada")
    User.objects.create(username="ben")
    Rating.objects.for_instance(Group.objects.create(name="rated"))


def rate(username: str, score: int) -> None:
    user = User.objects.get(username=username)
    Rating.objects.rate(Group.objects.get(), score, user=user)


RATING = Finding(
    package="django-star-ratings",
    operation="`Rating.objects.rate()` by two users",
    breaks=True,
    says="Each adds up the ratings that it sees and saves the sum: the older sum is saved last. "
    "The ratings themselves are kept, and the next rating corrects the sum.",
    setup=two_users,
    processes=[partial(rate, "ada", 3), partial(rate, "ben", 4)],
    invariant=equal(
        (2, 7), lambda: Rating.objects.values_list("count", "total").get(), "{0[0]} count: {0[1]}"
    ),
)


class Document(models.Model):
    version = IntegerVersionField()
    words = models.IntegerField(default=0)


def one_document() -> None:
    empty(Document)
    Document.objects.create()


def write(words: int) -> None:
    document = Document.objects.get()
    document.words += words
    document.save()


def nothing_is_lost(outcomes) -> str:
    told = sum(words for words, each in zip((1, 2), outcomes, strict=True) if each.raised is None)
    words = Document.objects.get().words
    return "" if words == told else f"{words} words, and {told} were told that they are saved"


VERSIONED = Finding(
    package="django-concurrency",
    operation="`save()` with an IntegerVersionField, by two editors",
    breaks=False,
    says="The UPDATE names the version that was read; the second editor gets RecordModifiedError.",
    setup=one_document,
    processes=[partial(write, 1), partial(write, 2)],
    invariant=nothing_is_lost,
    expected=(RecordModifiedError,),
)

reversion.register(FlatPage)


def one_page() -> None:
    empty(Revision, FlatPage)
    FlatPage.objects.create(url="/", title="Shop")


def edit(title: str) -> None:
    with reversion.create_revision():
        page = FlatPage.objects.get()
        page.title = title
        page.save()


REVISIONS = Finding(
    package="django-reversion",
    operation="`create_revision()` around `save()`, by two editors",
    breaks=False,
    says="Each edit has a version, even if another save overwrites the edit.",
    setup=one_page,
    processes=[partial(edit, "one"), partial(edit, "two")],
    invariant=equal(
        ["one", "two"],
        lambda: sorted(each.field_dict["title"] for each in Version.objects.all()),
        "versions {}",
    ),
)
