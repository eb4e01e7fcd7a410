"""Shlink: a unique key with a column that may be NULL accepts two links with the same code."""

from functools import partial

from django.db import connection, models, transaction

from lab.races.creating import target_of
from lab.races.museum import exhibit
from shorturl.strategies.table import table


class DomainLink(exhibit.ExhibitModel):
    """A link on a domain."""

    code = models.TextField()
    domain_id = models.BigIntegerField(null=True)  # NULL is the default domain
    target_url = models.TextField()

    def __str__(self) -> str:
        return f"{self.code} → {self.target_url}"


def as_found(code: str, target_url: str) -> bool:
    """Lock the link that has the code; if there is none, insert, and rely on the unique key.

    What goes wrong: if no row exists, none is locked, so no process waits. And in the unique key
    (code, domain_id) NULL differs from NULL, so it refuses nothing.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM museum_domainlink WHERE code = %s AND domain_id IS NULL FOR UPDATE",
            [code],
        )
        if cursor.fetchone():
            return False
        cursor.execute(
            "INSERT INTO museum_domainlink (code, domain_id, target_url) VALUES (%s, NULL, %s)",
            [code, target_url],
        )
    return True


def mended(code: str, target_url: str) -> bool:
    """Insert, and return whether the row was inserted.

    Why nothing can go wrong: the table now has UNIQUE NULLS NOT DISTINCT (code, domain_id), so
    two default domains are equal (PostgreSQL 15 or later). Check and use are one statement, which
    waits for another insert of the same code.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO museum_domainlink (code, domain_id, target_url) VALUES (%s, NULL, %s)"
            " ON CONFLICT (code, domain_id) DO NOTHING RETURNING id",
            [code, target_url],
        )
        return cursor.fetchone() is not None


# By default, all NULLs of a unique constraint are distinct.
unique = partial(models.UniqueConstraint, fields=["code", "domain_id"], name="museum_domainlink_uk")
EXHIBIT = exhibit.make_exhibit(
    DomainLink,
    constraints={"as_found": unique(), "mended": unique(nulls_distinct=False)},
    arguments=lambda process: ["sale", target_of(process)],
    name="null_in_a_unique_key",
    situation="Every process asks for the same code on the default domain, whose id is NULL.",
    invariant="One process gets it, and the others are told that it is taken.",
    strategies=table(
        exhibit.wrong_strategy(
            as_found, "SELECT … FOR UPDATE, then INSERT; UNIQUE (code, domain_id)"
        ),
        exhibit.right_strategy(mended, "INSERT … ON CONFLICT; UNIQUE NULLS NOT DISTINCT"),
    ),
    check=partial(exhibit.check_one_owner, "sale", DomainLink),
    source="Shlink 5.1.5: how it makes sure that a short code is unique",
    story=(
        "The code has two protections against this race. It looks for the short code with SELECT … "
        "FOR UPDATE inside a transaction, and a unique key on (code, domain) is behind it. Each "
        "has a gap, and both gaps are in the same place. FOR UPDATE locks rows, and a code that is "
        "still free has no row. The unique key would refuse the second row, but the default domain "
        "is stored as NULL, and in a unique key NULL is never equal to NULL. So on the default "
        "domain, which most links use, two links get the same code, and both owners are told that "
        "theirs was created. On any other domain the unique key refuses the second link."
    ),
    lesson="A unique key with a NULL in it is not a unique key, unless it says NULLS NOT DISTINCT.",
)
