"""What people hand in as a redeem, and the judge refuses; WORKSHOP.md says with which words."""

from django.db import OperationalError, transaction
from django.db.models import F

from lab.catalogue.museum.limited_use import LimitedLink


def one_use_only(key: str) -> bool:
    return LimitedLink.objects.filter(key=key, uses=0).update(uses=1) == 1


def nowait(key: str) -> bool:
    try:
        with transaction.atomic():
            link = LimitedLink.objects.select_for_update(nowait=True).get(key=key)
            if link.uses >= link.max_uses:
                return False
            link.uses += 1
            link.save(update_fields=["uses"])
            return True
    except OperationalError:
        return False


def skip_locked(key: str) -> bool:
    with transaction.atomic():
        link = LimitedLink.objects.select_for_update(skip_locked=True).filter(key=key).first()
        if link is None or link.uses >= link.max_uses:
            return False
        link.uses += 1
        link.save(update_fields=["uses"])
        return True


def compare_once(key: str) -> bool:
    link = LimitedLink.objects.get(key=key)
    if link.uses >= link.max_uses:
        return False
    return LimitedLink.objects.filter(key=key, uses=link.uses).update(uses=link.uses + 1) == 1


def count_and_put_back(key: str) -> bool:
    LimitedLink.objects.filter(key=key).update(uses=F("uses") + 1)
    link = LimitedLink.objects.get(key=key)
    if link.uses > link.max_uses:
        LimitedLink.objects.filter(key=key).update(uses=F("uses") - 1)
        return False
    return True


def looks_before_it_locks(key: str) -> bool:
    link = LimitedLink.objects.get(key=key)
    if link.uses >= link.max_uses:
        return False
    with transaction.atomic():
        link = LimitedLink.objects.select_for_update().get(key=key)
        link.uses += 1
        link.save(update_fields=["uses"])
    return True
