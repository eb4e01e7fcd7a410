"""django-friendship: two people ask each other at the same time."""

from functools import partial

from django.contrib.auth.models import User
from friendship.exceptions import AlreadyExistsError
from friendship.models import Friend, FriendshipRequest

from .finding import Finding


def two_people() -> None:
    User.objects.all().delete()
    User.objects.create(username="ada")
    User.objects.create(username="ben")


def ask(asking: str, asked: str) -> None:
    users = {user.username: user for user in User.objects.order_by("username")}
    Friend.objects.add_friend(users[asking], users[asked])


def one_request(outcomes: object) -> str:
    requests = FriendshipRequest.objects.count()
    return "" if requests == 1 else f"{requests} requests"


FINDING = Finding(
    package="django-friendship",
    version="1.12.0",
    operation="`add_friend()` of two users by each other",
    breaks=True,
    says="Each looks for a request of the other before either has made one: both are pending, "
    "which the look is to prevent.",
    setup=two_people,
    processes=[partial(ask, "ada", "ben"), partial(ask, "ben", "ada")],
    invariant=one_request,
    expected=(AlreadyExistsError,),
)
