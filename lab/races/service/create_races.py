"""The races of the service's creates: one by one, in bulk and by import, for the same keys."""

from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management import CommandError, call_command
from django.db import transaction

from lab.races.creating_races import links, no_links, target
from lab.races.race_definition import Process, Race, each
from lab.races.resolving_races import both_keys
from lab.races.service.functions import row
from pginterleave import Outcome
from shorturl import bulk, operations
from shorturl.management.commands.import_links import Command
from shorturl.models import ShortUrl
from shorturl.strategies.strategy import Strategy, table

COLUMNS = "key,target_url,created_at"
TAKEN, OTHERS = "taken", "https://others.example/"
Keys = list[str]

STRATEGIES = table(
    row(operations.create, "one after the other"),
    row(operations.create_many, "one statement in the order of the keys"),
    row(operations.create_many, "the same, and all links or none", name="all_or_nothing"),
    row(Command.load, "a file, by one statement for a batch", name="import_links"),
)


def create(strategy: Strategy[Any], process: int, keys: Keys) -> Keys:
    """Ask for links with these keys to the target of the process; return the keys that it got."""
    url = target(process)
    if strategy.function is Command.load:
        return imported(url, keys)
    if strategy.function is operations.create:
        return [key for key in keys if created(url, key)]
    wanted = [bulk.Wanted(url, key) for key in keys]
    all_or_nothing = strategy.name == "all_or_nothing"
    got = keys_of(operations.create_many(wanted, all_or_nothing=all_or_nothing))
    if all_or_nothing:
        assert got in (keys, []), f"{got} of {keys}"
    return got


def keys_of(outcomes: list[Any]) -> Keys:
    return [outcome.key for outcome in outcomes if isinstance(outcome, ShortUrl)]


def created(url: str, key: str) -> bool:
    try:
        return operations.create(url, key=key).key == key
    except ShortUrl.KeyTaken:
        return False


def imported(url: str, keys: Keys) -> Keys:
    """Import a file of links with these keys; return the keys that were not refused."""
    said = StringIO()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "links.csv"
        rows = [f"{key},{url},2022-04-29T00:00:00Z" for key in keys]
        file.write_text("\n".join([COLUMNS, *rows]))
        try:
            call_command("import_links", str(file), stdout=StringIO(), stderr=said)
        except CommandError as error:
            if error.returncode != 1:  # not only refused lines
                raise
    return [key for key in keys if f"key {key!r} leads to" not in said.getvalue()]


def create_both(strategy: Strategy[Any], process: int) -> Keys:
    return create(strategy, process, list(both_keys(process)))


def beside_a_create(strategy: Strategy[Any], number: int) -> list[Process]:
    """Return processes that ask for `same` and a key of their own; the last asks for `same` by
    operations.create()."""
    several = [
        partial(create, strategy, process, ["same", f"own{process}"])
        for process in range(1, number)
    ]
    return [*several, partial(create, STRATEGIES["create"], number, ["same"])]


def draw_crossed(strategy: Strategy[Any], process: int) -> Keys:
    """Create a link with a custom key, and one whose key is drawn.

    It draws a taken key first, then the other process's custom key, and then a free one.
    """
    own, other = both_keys(process)
    url = target(process)
    outcomes = bulk.create_many(
        [bulk.Wanted(url, own), bulk.Wanted(url)],
        all_or_nothing=False,
        draw=lambda: [TAKEN, other, f"own{process}"],
    )
    return keys_of(outcomes)


def create_and_roll_back() -> Keys:
    with suppress(ShortUrl.KeyTaken), transaction.atomic():
        operations.create(OTHERS, key="a")
        transaction.set_rollback(True)
    return []


def one_taken(strategy: Strategy[Any]) -> None:
    no_links(strategy)
    operations.create(OTHERS, key=TAKEN)


def each_has_what_it_is_told(outcomes: list[Outcome], *, others: int = 0) -> str:
    told = [(key, process) for process, one in enumerate(outcomes, 1) for key in one.returned]
    if len({key for key, _ in told}) < len(told):
        return f"a key is given twice: {sorted(told)}"
    for key, process in told:
        if not ShortUrl.objects.filter(key=key, target_url=target(process)).exists():
            return f"process {process} is told that it has {key}, and it has not"
    if ShortUrl.objects.count() != len(told) + others:
        return f"there are links that nobody was told of: {links()}"
    return ""


def each_key_is_given_once(outcomes: list[Outcome]) -> str:
    told = {key for one in outcomes for key in one.returned}
    return each_has_what_it_is_told(outcomes) or ("" if {"a", "b"} == told else f"only {told}")


def the_key_is_given_once(outcomes: list[Outcome]) -> str:
    told = {key for one in outcomes for key in one.returned}
    return each_has_what_it_is_told(outcomes) or ("" if "same" in told else "nobody has the key")


def at_least_three_links(outcomes: list[Outcome]) -> str:
    told = sum(len(one.returned) for one in outcomes)
    wrong = each_has_what_it_is_told(outcomes, others=1)
    return wrong or ("" if told >= 3 else f"{told} links are created, not 3")


_race = partial(
    Race,
    operation="service_creates",
    strategies=STRATEGIES,
    signature=(
        "create(target_url: str, *, key: str | None) -> ShortUrl, create_many(wanted: "
        "Sequence[Wanted], *, all_or_nothing: bool) -> list[ShortUrl | ShortUrlError], "
        "load(records: Iterator[tuple[int, Any]], owner: str | None) -> None"
    ),
    setup=no_links,
    observe=links,
)

RACES = (
    _race(
        name="creates_beside_a_create",
        situation="The last process creates a link; the others want its key, and another one.",
        must_hold="One process gets the key. Each link leads to the target of who was told so.",
        story=(
            "A program sends a list of links, or an operator imports a file, while somebody asks "
            "for a custom key that is on the list. The constraint decides who gets it."
        ),
        processes=beside_a_create,
        invariant=the_key_is_given_once,
    ),
    _race(
        name="creates_of_the_same_keys",
        situation="Every process creates links with the same two keys, in opposite orders.",
        must_hold="Each key is given once, no process meets a deadlock, and each is told right.",
        story=(
            "Two programs send the same list, or two operators import the same file. Each insert "
            "waits for the other's uncommitted one of the same key."
        ),
        processes=each(create_both),
        invariant=each_key_is_given_once,
    ),
    _race(
        name="creates_beside_a_rollback",
        situation="As before; the last process creates a link with one of the keys in a "
        "transaction, and rolls it back.",
        must_hold="Each key is given once, no process meets a deadlock, and each is told right.",
        story=(
            "Both lists wait for a key that a third process has not committed. If one had inserted "
            "its other key already, the two would wait for each other after the rollback. So a "
            "statement inserts in the order of the keys."
        ),
        counts=(3,),
        strategies={name: STRATEGIES[name] for name in ("create_many", "all_or_nothing")},
        processes=lambda strategy, number: [
            *each(create_both)(strategy, number - 1),
            create_and_roll_back,
        ],
        invariant=each_key_is_given_once,
    ),
    _race(
        name="creates_that_draw_crossed_keys",
        situation="Every process draws a taken key first, and then the other one's custom key.",
        must_hold="No process meets a deadlock, and at least three links are created.",
        story=(
            "A bulk create has a custom key and draws another one, which is taken. If it drew "
            "again while it held the custom key, it could wait for a process that waits for it."
        ),
        strategies={"create_many": STRATEGIES["create_many"]},
        setup=one_taken,
        processes=each(draw_crossed),
        invariant=at_least_three_links,
    ),
)
