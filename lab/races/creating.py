"""The races of creates: several processes draw the same key, and each must get a link."""

from functools import partial

from django.db import connection, transaction
from django.db.models import Model

from lab.models import Notification
from lab.races.race import Race
from pginterleave import Outcome
from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import erase
from shorturl.strategies.table import STRATEGIES, Strategy


def target_of(process: int) -> str:
    """Return the target URL to which a process creates its link."""
    return f"https://{process}.example/"


OTHER_TARGET = target_of(9)  # which is no process
OTHER_ID = 10**12  # to which no sequence comes


def create(strategy: Strategy, process: int) -> ShortUrl:
    """Create a link with the key `same`, which all processes try first, or with `own{process}`."""
    link: ShortUrl = strategy.function(target_of(process), keys=["same", f"own{process}"])
    return link


def create_in_a_transaction(strategy: Strategy, process: int) -> ShortUrl:
    with transaction.atomic():
        link = create(strategy, process)
        Notification.objects.create(text=f"{link.key} leads to {target_of(process)}")
    return link


def create_with_a_custom_key(strategy: Strategy, process: int) -> object:
    return strategy.function(target_of(process), keys=["wanted"])


def delete_all_links(strategy: Strategy) -> None:
    """Empty the tables, so that every schedule begins without links and notifications."""
    erase(ShortUrl.objects.all())
    Notification.objects.all().delete()
    set_next_id(1)


def set_next_id(number: int, model: type[Model] = ShortUrl) -> None:
    """Set the next id of a table, so that every schedule makes rows with the same ids."""
    with connection.cursor() as cursor:
        statement = "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s, false)"
        cursor.execute(statement, [model._meta.db_table, number])


def make_link_with_first_key(strategy: Strategy) -> None:
    """Create a link to OTHER_TARGET with the key that the processes try first."""
    delete_all_links(strategy)
    link = strategy.function(OTHER_TARGET, keys=["same"])
    # permuted_sequence makes keys from ids: the next id, and so the key, is the same again.
    ShortUrl.objects.filter(pk=link.pk).update(id=OTHER_ID)
    set_next_id(link.pk)


def check_own_links(outcomes: list[Outcome], already_there: int = 0) -> str:
    """Return a violation, or "" if each process has made one link, besides `already_there`."""
    for process, outcome in enumerate(outcomes, 1):
        if violation := check_own_link(process, outcome.returned):
            return violation
    count = ShortUrl.objects.count()
    expected = len(outcomes) + already_there
    return "" if count == expected else f"there are {count} links, not {expected}"


def check_own_link(process: int, link: ShortUrl) -> str:
    """Return a violation, or "" if a process has got a link that leads to its own target."""
    if link.target_url != target_of(process):
        return f"process {process} is returned another process's link, {link.key}"
    saved = ShortUrl.objects.filter(key=link.key).first()
    if saved is None:
        return f"process {process} is returned {link.key}, which is not in the database"
    if saved.target_url != target_of(process):
        return f"{saved.key} does not lead to the target of process {process}"
    return f"{saved.key}, the link of process {process}, is deleted" if saved.deleted_at else ""


def check_no_stolen_key(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if OTHER_ID's link is unchanged, and each process has its own."""
    other = ShortUrl.objects.filter(pk=OTHER_ID).first()
    if other is None or other.deleted_at:
        return "the link that had the key is deleted"
    if other.target_url != OTHER_TARGET:
        return f"{other.key} now leads to {other.target_url}"
    return check_own_links(outcomes, already_there=1)


def check_own_links_and_notifications(outcomes: list[Outcome]) -> str:
    violation = check_own_links(outcomes)
    written = Notification.objects.count()
    if not violation and written != len(outcomes):
        return f"{len(outcomes)} links and {written} notifications"
    return violation


def check_one_owner(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if one process has got a link, its own, and the others none."""
    owners = [process for process, outcome in enumerate(outcomes, 1) if outcome.returned]
    if len(owners) != 1:
        return f"processes {owners} are told that the key is theirs"
    (owner,) = owners
    return check_own_link(owner, outcomes[owner - 1].returned)


def describe_links() -> str:
    rows = ShortUrl.objects.order_by("id").values_list("key", "target_url")
    return ", ".join(f"{key} → {url}" for key, url in rows) or "no links"


_race = partial(
    Race,
    operation="creating",
    process_counts=(2, 3),
    strategies=STRATEGIES["creating"],
    setup=delete_all_links,
    process=create,
    check=check_own_links,
    rows=describe_links,
)
# timestamp_key makes keys of the time, and so finds none taken unless processes run at once.
TRIES_KEYS = {k: v for k, v in STRATEGIES["creating"].items() if k != "timestamp_key"}
# permuted_sequence makes keys of ids, and takes no custom key.
TAKES_KEYS = {k: v for k, v in TRIES_KEYS.items() if k != "permuted_sequence"}

RACES = (
    _race(
        name="collision",
        situation="One process creates a link, and the first key that it draws is taken.",
        invariant="It creates a link with another key, and the existing link does not change.",
        story=(
            "Keys are drawn at random, and sometimes a drawn key is in use. Nothing runs "
            "concurrently here: one process is enough. What does the create do when the database "
            "reports that the key is taken?"
        ),
        process_counts=(1,),
        strategies=TRIES_KEYS,
        setup=make_link_with_first_key,
        check=check_no_stolen_key,
    ),
    _race(
        name="toctou",
        situation="Every process creates a link, and all draw the same key first.",
        invariant="Each process gets a link that leads to its own target.",
        story=(
            "Two people shorten a URL at the same moment, and both draw the same key. A process "
            "that checks whether the key is free learns what was true at that moment. Between the "
            "time of check and the time of use, the other process can take the key."
        ),
    ),
    _race(
        name="toctou_in_a_transaction",
        situation="As toctou, but in the caller's atomic(), with a second row after the link.",
        invariant="Each process gets a link that leads to its own target, and its second row.",
        story=(
            "An application creates the short URL and stores a notification in one transaction. An "
            "error makes a PostgreSQL transaction unusable, so a retry fails too, unless a "
            "savepoint was set before."
        ),
        process=create_in_a_transaction,
        check=check_own_links_and_notifications,
    ),
    _race(
        name="custom_key",
        situation="Every process asks for the same custom key.",
        invariant="One process gets it, and the others are told that it is taken.",
        story=(
            "Two people ask for the same custom key. There is no second choice: one of them gets "
            "it, and the other must be told that it is taken."
        ),
        process_counts=(2,),
        strategies=TAKES_KEYS,
        process=create_with_a_custom_key,
        check=check_one_owner,
        expected=(KeySpaceExhausted,),
    ),
)
