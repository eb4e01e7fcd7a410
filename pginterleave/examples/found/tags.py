"""django-taggit: two requests add the same new tag to the same thing."""

from django.db import models
from taggit.managers import TaggableManager
from taggit.models import Tag, TaggedItem

from .finding import Finding


class Post(models.Model):
    tags = TaggableManager()

    class Meta:
        app_label = "found"


def one_post() -> None:
    TaggedItem.objects.all().delete()
    Tag.objects.all().delete()
    Post.objects.all().delete()
    Post.objects.create()


def tag() -> None:
    Post.objects.get().tags.add("django")


def tagged_once(outcomes: object) -> str:
    counts = (Tag.objects.count(), TaggedItem.objects.count())
    return "" if counts == (1, 1) else f"{counts[0]} tags, {counts[1]} times"


FINDING = Finding(
    package="django-taggit",
    version="6.1.0",
    operation="`tags.add()` of a new tag, twice",
    breaks=False,
    says="Name and slug of a tag are unique, and so is its use; get_or_create looks again.",
    setup=one_post,
    processes=[tag, tag],
    invariant=tagged_once,
)
