"""YOURLS: the next id is read, used and written back, and two creates use the same one."""

from functools import partial

from django.db import connection, models

from lab.races.creating import target_of
from lab.races.museum import exhibit
from shorturl.strategies.table import table


class Option(exhibit.ExhibitModel):
    """A setting that is stored in the database, such as the next id."""

    name = models.TextField(primary_key=True)
    value = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"


class Keyword(exhibit.ExhibitModel):
    """A link, whose keyword is made from the next id."""

    keyword = models.TextField(primary_key=True)
    target_url = models.TextField()

    def __str__(self) -> str:
        return f"{self.keyword} → {self.target_url}"


def as_found(target_url: str) -> str:
    """Read the next id, take the first free one from there, insert it, write back the id after it.

    What goes wrong: two processes read the same next id, and both find it free. The primary key
    refuses the second INSERT, and its user gets an error.
    """
    option = Option.objects.get(name="next_id")
    for number in range(option.value, option.value + 10):
        if not Keyword.objects.filter(keyword=str(number)).exists():
            Keyword.objects.create(keyword=str(number), target_url=target_url)
            Option.objects.filter(name="next_id").update(value=number + 1)
            return str(number)
    raise LookupError("no keyword was free")


def mended(target_url: str) -> str:
    """Take the next id and write back the id after it in one statement, and insert.

    Why nothing can go wrong: the UPDATE locks the row until it is committed, and gives each number
    to one process only. A sequence does the same, and no process waits for it.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE museum_option SET value = value + 1 WHERE name = 'next_id' "
            " RETURNING value - 1 AS taken"
        )
        keyword = str(cursor.fetchone()[0])
    Keyword.objects.create(keyword=keyword, target_url=target_url)
    return keyword


EXHIBIT = exhibit.make_exhibit(
    Option,
    Keyword,
    first_rows=[Option(name="next_id", value=1)],
    arguments=lambda process: [target_of(process)],
    name="next_id_written_back",
    situation="Every process creates a link, whose keyword is the next id.",
    invariant="Each process gets a link that leads to its own target.",
    strategies=table(
        exhibit.wrong_strategy(as_found, "read the next id, look, insert, write it back"),
        exhibit.right_strategy(mended, "UPDATE … RETURNING takes the number and moves on"),
    ),
    check=partial(exhibit.check_own_links, Keyword),
    source="YOURLS: next_id and keyword_is_free (its issues 765, 1974, 2538, 2640 and 3666)",
    story=(
        "Counting makes the shortest keywords. The next number is stored in a table of options. "
        "The code reads it, increments it until keyword_is_free says yes, inserts the link, and "
        "writes the number after it back. This is a lost update in a create: two processes read "
        "the same number. The primary key keeps a link from being overwritten, so the data stays "
        "right, and the user gets an error about a keyword that they never asked for. Five issues "
        "report it."
    ),
    lesson="A number that is read and written back is handed out twice; take it in one statement.",
)
