from collections.abc import Callable

from django.db.models import Max

from shorturl.models import LinkEvent

VERDICT = "wrong"
SHOWS = "all ids up to the largest: one can be committed after a larger one"


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    """Send all events up to the largest id, and delete all up to it.

    SQL:
        SELECT MAX(id) AS last FROM shorturl_linkevent WHERE subscription_id = …
        SELECT … FROM shorturl_linkevent WHERE (subscription_id = … AND id <= …) ORDER BY id ASC
        BEGIN
        DELETE FROM shorturl_linkevent WHERE (subscription_id = … AND id <= …)
        COMMIT

    What goes wrong: ids are assigned in order, but their rows are committed in any order. An event
    with a smaller id that is committed after the second statement is deleted without being sent.
    Keeping the largest id for the next time instead of deleting rows does not help, and neither
    does a timestamp. And two workers at once both send all events.

    What it costs: three round trips for many events, and lost events.
    """
    events = LinkEvent.objects.filter(subscription_id=subscription_id)
    last = events.aggregate(last=Max("id"))["last"]
    if last is None:
        return False
    for event in events.filter(id__lte=last).order_by("id"):
        send(event)
    events.filter(id__lte=last).delete()
    return True
