"""django-sequences: two invoices take the next number of a sequence without gaps."""

from django.db import transaction
from sequences import get_next_value
from sequences.models import Sequence

from .finding import Finding


@transaction.atomic
def number() -> int:
    return get_next_value("invoices")


def first_and_second(outcomes) -> str:
    numbers = sorted(each.returned for each in outcomes)
    return "" if numbers == [1, 2] else f"numbers {numbers}"


FINDING = Finding(
    package="django-sequences",
    version="3.1",
    operation="`get_next_value()` in a transaction, twice",
    breaks=False,
    says="One INSERT … ON CONFLICT DO UPDATE: the second one waits for the COMMIT of the first.",
    setup=lambda: Sequence.objects.all().delete(),
    processes=[number, number],
    invariant=first_and_second,
)
