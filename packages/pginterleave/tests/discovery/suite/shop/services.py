"""What views call."""

from shop.models import Redemption, Voucher


def redeem(voucher: Voucher, note: str = "") -> bool:
    """Check, then act."""
    if voucher.redemption_set.exists():
        return False
    Redemption.objects.create(voucher=voucher)
    return True


class Desk:
    @staticmethod
    def give(voucher: Voucher) -> int:
        """Write what does not depend on the row."""
        return Voucher.objects.filter(pk=voucher.pk).update(used=True)


class Task:
    """Is called by its run(), as a task of Celery is."""

    def __call__(self, key: int) -> int:
        return self.run(key)

    def run(self, key: int) -> int:
        return Voucher.objects.filter(pk=key).update(used=True)


mark = Task()


class Anything:
    """Has every attribute: also a `__dict__`, which is none."""

    __slots__ = ()

    def __getattr__(self, name: str) -> None:
        return None


ANYTHING = Anything()
