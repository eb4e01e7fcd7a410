"""Kutt: check whether the address is free, and insert it, without a unique constraint."""

from functools import partial

from django.db import connection, models

from lab.races.creating import target_of
from lab.races.museum import exhibit
from shorturl.strategies.table import table


class Address(exhibit.ExhibitModel):
    """A link that is found by its address."""

    address = models.TextField()
    target_url = models.TextField()

    def __str__(self) -> str:
        return f"{self.address} → {self.target_url}"


def as_found(address: str, target_url: str) -> bool:
    """Check whether the address is free, and insert it.

    What goes wrong: another process checks before the insert, and the table accepts both rows.
    """
    if Address.objects.filter(address=address).exists():
        return False
    Address.objects.create(address=address, target_url=target_url)
    return True


def mended(address: str, target_url: str) -> bool:
    """Insert, and return whether the row was inserted.

    Why nothing can go wrong: the table now has UNIQUE (address), which accepts one of the rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO museum_address (address, target_url) VALUES (%s, %s)"
            " ON CONFLICT (address) DO NOTHING RETURNING id",
            [address, target_url],
        )
        return cursor.fetchone() is not None


EXHIBIT = exhibit.make_exhibit(
    Address,
    constraints={"mended": models.UniqueConstraint(fields=["address"], name="museum_address_uk")},
    arguments=lambda process: ["sale", target_of(process)],
    name="no_unique_constraint",
    situation="Every process asks for the same address.",
    invariant="One process gets it, and the others are told that it is taken.",
    strategies=table(
        exhibit.wrong_strategy(as_found, "check, then insert, without a unique constraint"),
        exhibit.right_strategy(mended, "a unique constraint, and INSERT … ON CONFLICT"),
    ),
    check=partial(exhibit.check_one_owner, "sale", Address),
    source="Kutt 3.2.3: generateId in server/utils/utils.js (its issue 513)",
    story=(
        "The code checks whether the address is free, and inserts it. Other projects do the same, "
        "and their unique constraint turns the race into an error. This table has no such "
        "constraint. Both inserts succeed, both owners are told that the address is theirs, and no "
        "error is raised. The database chooses the target that a visitor is sent to. No other "
        "check corrects this: until one process commits its insert, the other cannot see it."
    ),
    lesson="What must be unique needs a unique constraint; a check before is only a courtesy.",
)
