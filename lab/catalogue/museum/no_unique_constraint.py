"""Kutt: check whether the address is free, insert it, and no constraint that would know better."""

from typing import Any

from django.db import connection, models

from lab.catalogue.creating_races import target
from lab.catalogue.museum.exhibit import (
    ExhibitModel,
    add_unique,
    exhibit,
    one_link_called,
    right,
    wrong,
)
from lab.catalogue.race_definition import each
from shorturl.strategies import Strategy, table


class Address(ExhibitModel):
    """A link, which is found by its address."""

    address = models.TextField()
    target_url = models.TextField()

    def __str__(self) -> str:
        return f"{self.address} → {self.target_url}"


def as_found(address: str, target_url: str) -> bool:
    """Look whether the address is free, and insert it.

    What goes wrong: somebody else looks before the insert, and nothing in the table minds.
    """
    if Address.objects.filter(address=address).exists():
        return False
    Address.objects.create(address=address, target_url=target_url)
    return True


def mended(address: str, target_url: str) -> bool:
    """Insert, and see whether the row went in.

    Why nothing can go wrong: the table now has UNIQUE (address), which decides who has it.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO museum_address (address, target_url) VALUES (%s, %s)"
            " ON CONFLICT (address) DO NOTHING RETURNING id",
            [address, target_url],
        )
        return cursor.fetchone() is not None


def add_constraint(strategy: Strategy[Any]) -> None:
    if strategy.name != "as_found":
        add_unique(Address, "address")


EXHIBIT = exhibit(
    Address,
    prepare=add_constraint,
    name="no_unique_constraint",
    situation="Everybody asks for the same address.",
    must_hold="One gets it, and the others are told that it is taken.",
    strategies=table(
        wrong(as_found, "look, then insert, and no constraint behind it"),
        right(mended, "a unique constraint, and INSERT … ON CONFLICT"),
    ),
    processes=each(lambda strategy, process: strategy.function("sale", target(process))),
    invariant=one_link_called("sale", Address),
    source="Kutt 3.2.3: generateId in server/utils/utils.js (its issue 513)",
    story=(
        "They check whether the address is free, and insert it. Others do the same, and their "
        "unique constraint turns the race into an error that somebody sees. This table has none. "
        "Both inserts succeed, both owners are told that the address is theirs, no error is raised "
        "anywhere, and whose target a visitor is sent to is left to the database. The code that "
        "looks cannot be mended: until the insert is committed, there is nothing for the other to "
        "see."
    ),
    lesson="What must be unique has to be a constraint; the look before is a courtesy.",
    signature="create(address: str, target_url: str) -> bool: whether the address is yours now",
)
