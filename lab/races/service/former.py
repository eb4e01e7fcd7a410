"""What the remaining races of the service use of the former catalogue; it goes with them."""

from lab.races.creating import set_next_id as next_id
from lab.races.delivering import EVENTS, RECEIVER
from pginterleave import Outcome
from shorturl.models import LinkEvent, Subscription

Pair = tuple[int, str]  # an event's id and key


def only(*events: Pair) -> None:
    LinkEvent.objects.all().delete()
    Subscription.objects.get_or_create(id=RECEIVER, url="https://receiver.example/")
    next_id(1, LinkEvent)
    next_id(1, Subscription)
    LinkEvent.objects.bulk_create(
        LinkEvent(id=pk, key=key, subscription_id=RECEIVER) for pk, key in events
    )


def each_once_in_order(outcomes: list[Outcome], due: tuple[Pair, ...] = tuple(EVENTS)) -> str:
    """Compare the events that were sent, and then those that wait, with the events that are due."""
    sent = sorted(each for outcome in outcomes for each in outcome.returned)
    told = [event for _, *event in sent]
    left = LinkEvent.objects.order_by("id").exclude(id__in=[pk for pk, _ in told])
    told += map(list, left.values_list("id", "key"))
    for pk, key in due:
        if (times := told.count([pk, key])) != 1:
            return f"event {pk} of {key} was sent {times} times" if times else f"event {pk} is lost"
    for key in sorted({key for _, key in due}):
        order = [pk for pk, one in told if one == key]
        if order != sorted(order):
            return f"the events of {key} are sent in the order {order}"
    return ""
