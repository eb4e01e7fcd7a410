"""django-concurrency: two editors save the same document."""

from functools import partial

from concurrency.exceptions import RecordModifiedError
from concurrency.fields import IntegerVersionField
from django.db import models

from .finding import Finding


class Document(models.Model):
    version = IntegerVersionField()
    words = models.IntegerField(default=0)

    class Meta:
        app_label = "found"


def one_document() -> None:
    Document.objects.all().delete()
    Document.objects.create()


def write(words: int) -> None:
    document = Document.objects.get()
    document.words += words
    document.save()


def nothing_is_lost(outcomes) -> str:
    told = sum(words for words, each in zip((1, 2), outcomes, strict=True) if each.raised is None)
    words = Document.objects.get().words
    return "" if words == told else f"{words} words, and {told} were told that they are saved"


FINDING = Finding(
    package="django-concurrency",
    version="2.8.1",
    operation="`save()` with an IntegerVersionField, by two editors",
    breaks=False,
    says="The UPDATE names the version that was read; who comes second gets RecordModifiedError.",
    setup=one_document,
    processes=[partial(write, 1), partial(write, 2)],
    invariant=nothing_is_lost,
    expected=(RecordModifiedError,),
)
