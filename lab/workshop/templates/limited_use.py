"""Let a link be redeemed as often as it may be, and not once more.

`redeem` returns True when this was one of the link's uses, and False when none is left. A link has
`uses` and `max_uses`, and may be used so often: once, or more than once.

As it stands it checks whether a use is left, and then takes it. The database adds, so that no use
is lost. Who else has looked meanwhile?
"""

from django.db.models import F

from lab.catalogue.museum.limited_use import LimitedLink


def redeem(key: str) -> bool:
    link = LimitedLink.objects.get(key=key)
    if link.uses >= link.max_uses:
        return False
    LimitedLink.objects.filter(key=key).update(uses=F("uses") + 1)
    return True
