"""django-oscar: two customers order the last item."""

from functools import partial

from django.contrib.auth.models import User
from django.contrib.sites.models import Site
from oscar.apps.basket.models import Basket
from oscar.apps.catalogue.models import Product, ProductClass
from oscar.apps.order.models import Order
from oscar.apps.partner.models import Partner, StockRecord
from oscar.apps.partner.strategy import Default
from oscar.test.factories import create_order, create_product

from .finding import Finding


def one_item() -> None:
    for model in (Order, Basket, StockRecord, Product, ProductClass, Partner, User):
        model.objects.all().delete()
    Site.objects.get_or_create(id=1, defaults={"domain": "shop.example", "name": "shop"})
    product = create_product(title="Last", price=10, num_in_stock=1)
    for username in ("ada", "ben"):
        user = User.objects.create(username=username)
        basket = Basket.objects.create(owner=user)
        basket.strategy = Default()
        basket.add_product(product)


def order(username: str) -> bool:
    """Do what the checkout does last: look at the stock, and place the order."""
    user = User.objects.get(username=username)
    basket = Basket.objects.get(owner=user)
    basket.strategy = Default()
    for line in basket.all_lines():
        if not line.purchase_info.availability.is_purchase_permitted(line.quantity)[0]:
            return False
    create_order(number=username, basket=basket, user=user)
    return True


def not_sold_twice(outcomes: object) -> str:
    stock = StockRecord.objects.get()
    left = stock.net_stock_level
    return "" if left >= 0 else f"{Order.objects.count()} orders, {left} left"


FINDING = Finding(
    package="django-oscar",
    version="4.2.1",
    operation="the last item, ordered by two customers",
    breaks=True,
    says="The checkout looks at the stock before it allocates it, and the allocation does not "
    "check it again. The stock is then negative, which the source calls unusual.",
    setup=one_item,
    processes=[partial(order, "ada"), partial(order, "ben")],
    invariant=not_sold_twice,
)
