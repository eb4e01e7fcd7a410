"""Operations that may happen once: publish an article, send a mail, sell the last item."""

from functools import partial

from django.contrib.auth.models import User
from django.contrib.sites.models import Site
from django.core.mail.backends.base import BaseEmailBackend
from django.db import models, transaction
from django_fsm import (
    ConcurrentTransition,
    ConcurrentTransitionMixin,
    FSMField,
    TransitionNotAllowed,
    transition,
)
from oscar.apps.basket.models import Basket
from oscar.apps.catalogue.models import Product, ProductClass
from oscar.apps.order.models import Order
from oscar.apps.partner.models import Partner, StockRecord
from oscar.apps.partner.strategy import Default
from oscar.test.factories import create_order, create_product
from post_office import mail
from post_office.mail import send_queued
from post_office.models import Email

from .finding import Finding, empty, equal


class Notice(models.Model):
    pass


class Article(models.Model):
    state = FSMField(default="draft")

    @transition(field=state, source="draft", target="published")
    def publish(self) -> None:
        Notice.objects.create()


class GuardedArticle(ConcurrentTransitionMixin, models.Model):
    state = FSMField(default="draft")

    @transition(field=state, source="draft", target="published")
    def publish(self) -> None:
        Notice.objects.create()


def one_draft(model: type[models.Model]) -> None:
    empty(Notice, model)
    model.objects.create()


@transaction.atomic
def publish(model: type[models.Model]) -> None:
    article = model.objects.get()
    article.publish()
    article.save()


noticed_once = equal(1, lambda: Notice.objects.count(), "{} notices")

ARTICLE = Finding(
    package="django-fsm",
    operation="a transition and `save()`, twice",
    breaks=True,
    says="Both find the source state and make the transition, with its side effects. It holds "
    "with the package's own ConcurrentTransitionMixin. The package goes on as a part of viewflow.",
    setup=partial(one_draft, Article),
    processes=[partial(publish, Article)] * 2,
    invariant=noticed_once,
    expected=(TransitionNotAllowed,),
)
GUARDED_ARTICLE = Finding(
    package="django-fsm",
    operation="the same with `ConcurrentTransitionMixin`",
    breaks=False,
    says="The UPDATE names the source state, so the second one is refused, and its transaction "
    "undoes the side effects of the transition.",
    setup=partial(one_draft, GuardedArticle),
    processes=[partial(publish, GuardedArticle)] * 2,
    invariant=noticed_once,
    expected=(TransitionNotAllowed, ConcurrentTransition),
)

SENT: list[str] = []


class KeepingBackend(BaseEmailBackend):
    """Keeps the subjects of sent mails."""

    def send_messages(self, email_messages):
        SENT.extend(message.subject for message in email_messages)
        return len(email_messages)


def one_mail() -> None:
    SENT.clear()
    empty(Email)
    mail.send(
        "ada@example.com", "ben@example.com", subject="Hello", message="Hello", priority="low"
    )


MAIL = Finding(
    package="django-post_office",
    operation="`send_queued()` by two workers",
    breaks=True,
    says="Both read the queue before either has marked the mail as sent. It holds with the command "
    "`send_queued_mail` on one machine, which takes a lock on a file.",
    setup=one_mail,
    processes=[partial(send_queued, log_level=0)] * 2,
    invariant=equal(1, lambda: len(SENT), "sent {} times"),
)


def one_item() -> None:
    empty(Order, Basket, StockRecord, Product, ProductClass, Partner, User)
    Site.objects.get_or_create(id=1, defaults={"domain": "shop.example", "name": "shop"})
    product = create_product(title="Last", price=10, num_in_stock=1)
    for username in ("ada", "ben"):
        user = User.objects.create(username=username)
        basket = Basket.objects.create(owner=user)
        basket.strategy = Default()
        basket.add_product(product)


def order(username: str) -> bool:
    """Do the last steps of the checkout: look at the stock, and place the order."""
    user = User.objects.get(username=username)
    basket = Basket.objects.get(owner=user)
    basket.strategy = Default()
    for line in basket.all_lines():
        if not line.purchase_info.availability.is_purchase_permitted(line.quantity)[0]:
            return False
    create_order(number=username, basket=basket, user=user)
    return True


def not_sold_twice(outcomes: object) -> str:
    left = StockRecord.objects.get().net_stock_level
    return "" if left >= 0 else f"{Order.objects.count()} orders, {left} left"


STOCK = Finding(
    package="django-oscar",
    operation="the last item, ordered by two customers",
    breaks=True,
    says="The checkout looks at the stock before it allocates it, and the allocation does not "
    "check it again. The stock is then negative, which the source calls unusual.",
    setup=one_item,
    processes=[partial(order, "ada"), partial(order, "ben")],
    invariant=not_sold_twice,
)
