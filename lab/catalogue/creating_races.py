"""The races of creates: several processes draw the same key, and each needs a link of its own."""

from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from lab.catalogue.race_definition import Race, each
from lab.models import Notification
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy, creating


def target(process: int) -> str:
    return f"https://{process}.example/"


def create(strategy: Strategy[Any], process: int) -> ShortUrl:
    """Draw the key `same` first, as all processes do, and after it a key of its own."""
    made: ShortUrl = strategy.function(target(process), keys=["same", f"own{process}"])
    return made


def create_in_a_transaction(strategy: Strategy[Any], process: int) -> ShortUrl:
    with transaction.atomic():
        short_url = create(strategy, process)
        Notification.objects.create(text=f"{short_url.key} leads to {target(process)}")
    return short_url


def create_with_a_custom_key(strategy: Strategy[Any], process: int) -> object:
    return strategy.function(target(process), keys=["wanted"])


def no_links(strategy: Strategy[Any]) -> None:
    ShortUrl.objects.all().erase()
    Notification.objects.all().delete()
    next_id(1)


def next_id(number: int, model: type[Model] = ShortUrl) -> None:
    """Set the id's sequence to `number`, so that every schedule makes the same rows."""
    with connection.cursor() as cursor:
        sequence = "setval(pg_get_serial_sequence(%s, 'id'), %s, false)"
        cursor.execute(f"SELECT {sequence}", [model._meta.db_table, number])


def first_key_taken(strategy: Strategy[Any]) -> None:
    """Give somebody else (process 9) the key that `strategy` is about to try first."""
    no_links(strategy)
    short_url = strategy.function(target(9), keys=["same"])
    # Out of the way of the sequence, which permuted_sequence turns into its next key.
    ShortUrl.objects.filter(pk=short_url.pk).update(id=10**12)
    next_id(short_url.pk)


def everybody_owns_a_link(outcomes: list[Outcome], of_others: int = 0) -> str:
    for process, outcome in enumerate(outcomes, 1):
        if wrong := owns_no_link(process, outcome.returned):
            return wrong
    there_are, due = ShortUrl.objects.count(), len(outcomes) + of_others
    return "" if there_are == due else f"there are {there_are} links, not {due}"


def owns_no_link(process: int, returned: object) -> str:
    if not isinstance(returned, ShortUrl):
        return f"process {process} is returned {returned!r}, which is no ShortUrl"
    if returned.target_url != target(process):
        return f"process {process} is handed somebody else's link, {returned.key}"
    saved = ShortUrl.objects.filter(key=returned.key).first()
    if saved is None:
        return f"process {process} is returned {returned.key}, which is not in the database"
    if saved.target_url != target(process):
        return f"{saved.key} does not lead to the target of process {process}"
    return f"{saved.key}, the link of process {process}, is deleted" if saved.deleted_at else ""


def nobody_else_loses(outcomes: list[Outcome]) -> str:
    taken = ShortUrl.objects.filter(pk=10**12).first()
    if taken is None or taken.deleted_at:
        return "the link that had the key is deleted"
    if taken.target_url != target(9):
        return f"{taken.key} now leads to {taken.target_url}"
    return everybody_owns_a_link(outcomes, of_others=1)


def everybody_owns_a_link_and_a_notification(outcomes: list[Outcome]) -> str:
    wrong = everybody_owns_a_link(outcomes)
    written = Notification.objects.count()
    if not wrong and written != len(outcomes):
        return f"{len(outcomes)} links, and {written} notifications"
    return wrong


def one_has_it_and_the_others_are_told(outcomes: list[Outcome]) -> str:
    owners = [process for process, outcome in enumerate(outcomes, 1) if outcome.returned]
    if len(owners) != 1:
        return f"processes {owners} are told that the key is theirs"
    return owns_no_link(owners[0], outcomes[owners[0] - 1].returned)


def links() -> str:
    rows = ShortUrl.objects.order_by("id").values_list("key", "target_url")
    return ", ".join(f"{key} → {url}" for key, url in rows) or "no links"


_race = partial(
    Race,
    operation="creating",
    counts=(2, 3),
    strategies=creating.STRATEGIES,
    signature="create(target_url: str, *, keys: Iterable[str]) -> ShortUrl",
    setup=no_links,
    processes=each(create),
    invariant=everybody_owns_a_link,
    observe=links,
)

RACES = (
    _race(
        name="collision",
        situation="One create, whose first key is somebody's already.",
        must_hold="It makes a link with another key, and nobody else's link changes.",
        story=(
            "Keys are drawn at random, and one day a draw hits a key that is in use. There is no "
            "competitor here, one process is enough. What does the create do with the answer that "
            "the database gives?"
        ),
        counts=(1,),
        # The first time that a clock shows is a free key, unless two processes read it at once.
        strategies={n: s for n, s in creating.STRATEGIES.items() if n != "timestamp_key"},
        setup=first_key_taken,
        invariant=nobody_else_loses,
    ),
    _race(
        name="toctou",
        situation="Everybody creates a link, and all draw the same key first.",
        must_hold="Everybody gets a link that leads to their own target.",
        story=(
            "Two people shorten a URL at the same moment, and both draw the same key. The one that "
            "checks whether the key is free learns what was true at that moment: between the time "
            "of check and the time of use, the other one can take it."
        ),
    ),
    _race(
        name="toctou_in_a_transaction",
        situation="The same inside the caller's atomic(), with another row written after the link.",
        must_hold="Everybody gets a link that leads to their own target, and the other row.",
        story=(
            "The same, in an application that creates the short URL and sends a notification in "
            "one transaction. An error leaves a PostgreSQL transaction unusable, so a retry fails "
            "too, unless a savepoint was set before."
        ),
        processes=each(create_in_a_transaction),
        invariant=everybody_owns_a_link_and_a_notification,
    ),
    _race(
        name="custom_key",
        situation="Everybody asks for the same custom key.",
        must_hold="One gets it, and the others are told that it is taken.",
        story=(
            "Two people ask for the same custom key. There is no second choice: one of them gets "
            "it, and the other has to be told, however close the race was."
        ),
        counts=(2,),
        strategies={n: s for n, s in creating.STRATEGIES.items() if s.draws_keys},
        processes=each(create_with_a_custom_key),
        invariant=one_has_it_and_the_others_are_told,
        expected=(ShortUrl.KeySpaceExhausted,),
    ),
)
