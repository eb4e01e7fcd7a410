"""django-fsm: two editors publish the same article; with the mixin for it, and without."""

from functools import partial

from django.db import models, transaction
from django_fsm import (
    ConcurrentTransition,
    ConcurrentTransitionMixin,
    FSMField,
    TransitionNotAllowed,
    transition,
)

from .finding import Finding


class Notice(models.Model):
    class Meta:
        app_label = "found"


class Article(models.Model):
    state = FSMField(default="draft")

    class Meta:
        app_label = "found"

    @transition(field=state, source="draft", target="published")
    def publish(self) -> None:
        Notice.objects.create()


class GuardedArticle(ConcurrentTransitionMixin, models.Model):
    state = FSMField(default="draft")

    class Meta:
        app_label = "found"

    @transition(field=state, source="draft", target="published")
    def publish(self) -> None:
        Notice.objects.create()


def one_draft(model: type[models.Model]) -> None:
    Notice.objects.all().delete()
    model.objects.all().delete()
    model.objects.create()


@transaction.atomic
def publish(model: type[models.Model]) -> None:
    article = model.objects.get()
    article.publish()
    article.save()


def noticed_once(outcomes: object) -> str:
    notices = Notice.objects.count()
    return "" if notices == 1 else f"{notices} notices"


FINDING = Finding(
    package="django-fsm",
    version="3.0.1",
    operation="a transition and `save()`, twice",
    breaks=True,
    says="Both find the source state and make the transition, with its side effects. It holds "
    "with the package's own ConcurrentTransitionMixin. The package goes on as a part of viewflow.",
    setup=partial(one_draft, Article),
    processes=[partial(publish, Article)] * 2,
    invariant=noticed_once,
    expected=(TransitionNotAllowed,),
)
GUARDED = Finding(
    package="django-fsm",
    version="3.0.1",
    operation="the same with `ConcurrentTransitionMixin`",
    breaks=False,
    says="The UPDATE names the source state, and the second one is refused; its transaction takes "
    "back what the transition did.",
    setup=partial(one_draft, GuardedArticle),
    processes=[partial(publish, GuardedArticle)] * 2,
    invariant=noticed_once,
    expected=(TransitionNotAllowed, ConcurrentTransition),
)
