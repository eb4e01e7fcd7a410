"""The condition stands in the statement that uses it: whoever changes the row has the use."""

from django.db.models import F

from lab.catalogue.museum.limited_use import LimitedLink


def redeem(key: str) -> bool:
    left = LimitedLink.objects.filter(key=key, uses__lt=F("max_uses"))
    return left.update(uses=F("uses") + 1) == 1
