"""Two processes look for a row and create it if it is missing: is there one row afterwards?"""

from functools import partial

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.backends.db import SessionStore
from django.db import models
from django.http import HttpRequest
from friendship.exceptions import AlreadyExistsError
from friendship.models import Friend, FriendshipRequest
from hitcount.models import Hit, HitCount
from hitcount.views import HitCountMixin
from solo.models import SingletonModel
from taggit.managers import TaggableManager
from taggit.models import Tag, TaggedItem
from waffle import switch_is_active
from waffle.models import Switch

from .finding import Finding, empty, equal

KEY = "found0123456789abcdef0123456789a"


class Configuration(SingletonModel):
    title = models.CharField(max_length=20, default="Shop")


SOLO = Finding(
    package="django-solo",
    operation="the first `get_solo()`, twice",
    breaks=False,
    says="The row has a fixed primary key, and get_or_create looks again if it is taken.",
    setup=lambda: empty(Configuration),
    processes=[lambda: Configuration.get_solo().pk] * 2,
    invariant=equal(1, lambda: Configuration.objects.count(), "{} rows"),
)
SWITCH = Finding(
    package="django-waffle",
    operation="`switch_is_active()` of a missing switch, twice",
    breaks=False,
    says="With WAFFLE_CREATE_MISSING_SWITCHES get_or_create makes the switch, and its name is "
    "unique. Tested without a cache.",
    setup=lambda: empty(Switch),
    processes=[lambda: switch_is_active("new-checkout")] * 2,
    invariant=equal(1, lambda: Switch.objects.count(), "{} switches"),
)


class Post(models.Model):
    tags = TaggableManager()


def one_post() -> None:
    empty(TaggedItem, Tag, Post)
    Post.objects.create()


TAGS = Finding(
    package="django-taggit",
    operation="`tags.add()` of a new tag, twice",
    breaks=False,
    says="Name and slug of a tag are unique, and so is its use; get_or_create looks again.",
    setup=one_post,
    processes=[lambda: Post.objects.get().tags.add("django")] * 2,
    invariant=equal(
        (1, 1),
        lambda: (Tag.objects.count(), TaggedItem.objects.count()),
        "{0[0]} tags, {0[1]} times",
    ),
)


def no_hits() -> None:
    empty(HitCount)
    HitCount.objects.create(content_type=ContentType.objects.get_for_model(HitCount), object_pk=1)


def visit() -> None:
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = "192.0.2.1"
    request.session, request.user = SessionStore(KEY), AnonymousUser()
    HitCountMixin.hit_count(request, HitCount.objects.get())


HITS = Finding(
    package="django-hitcount",
    operation="`HitCountMixin.hit_count()`, twice in one session",
    breaks=True,
    says="Both look for an earlier hit of the session before either has made one. No count is "
    "lost: one UPDATE increments the number.",
    setup=no_hits,
    processes=[visit, visit],
    invariant=equal(1, lambda: Hit.objects.count(), "{} hits"),
)


def two_people() -> None:
    empty(User)
    User.objects.create(username="ada")
    User.objects.create(username="ben")


def ask(asking: str, asked: str) -> None:
    users = {user.username: user for user in User.objects.order_by("username")}
    Friend.objects.add_friend(users[asking], users[asked])


FRIENDS = Finding(
    package="django-friendship",
    operation="`add_friend()` of two users by each other",
    breaks=True,
    says="Each looks for a request of the other before either has made one. Both requests are then "
    "pending, which the check should prevent.",
    setup=two_people,
    processes=[partial(ask, "ada", "ben"), partial(ask, "ben", "ada")],
    invariant=equal(1, lambda: FriendshipRequest.objects.count(), "{} requests"),
    expected=(AlreadyExistsError,),
)
