"""django-star-ratings: two users rate the same thing."""

from functools import partial

from django.contrib.auth.models import Group, User
from star_ratings.models import Rating, UserRating

from .finding import Finding


def two_users() -> None:
    UserRating.objects.all().delete()
    Rating.objects.all().delete()
    User.objects.all().delete()
    Group.objects.all().delete()
    User.objects.create(username="ada")
    User.objects.create(username="ben")
    Rating.objects.for_instance(Group.objects.create(name="rated"))


def rate(username: str, score: int) -> None:
    user = User.objects.get(username=username)
    Rating.objects.rate(Group.objects.get(), score, user=user)


def both_count(outcomes: object) -> str:
    rating = Rating.objects.get()
    return "" if (rating.count, rating.total) == (2, 7) else f"{rating.count} count: {rating.total}"


FINDING = Finding(
    package="django-star-ratings",
    version="0.9.2",
    operation="`Rating.objects.rate()` by two users",
    breaks=True,
    says="Each adds up the ratings that it sees and saves the sum: that of the first comes last. "
    "The ratings themselves are kept, and the next one makes the sum right.",
    setup=two_users,
    processes=[partial(rate, "ada", 3), partial(rate, "ben", 4)],
    invariant=both_count,
)
