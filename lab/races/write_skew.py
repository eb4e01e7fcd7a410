"""Write skew: each of two processes decides by two rows, and writes a different one of them.

No shortener is known to have this bug. It is here because it distinguishes SERIALIZABLE from
REPEATABLE READ (anomaly A5B of Berenson and others, A Critique of ANSI SQL Isolation Levels, 1995).
"""

from functools import partial

from django.db import OperationalError, connection, models, transaction
from django.db.backends.postgresql.psycopg_any import errors

from lab.races.museum import exhibit
from lab.races.race import Race
from pginterleave import Outcome
from shorturl.strategies.table import Strategy, table

# One of the competing transactions always commits, so load alone never causes so many failures.
MAX_ATTEMPTS = 1_000


class TeamLink(exhibit.ExhibitModel):
    """A link of a team, which is active or not."""

    key = models.TextField(unique=True)
    team = models.TextField()
    active = models.BooleanField()

    def __str__(self) -> str:
        return f"{self.key}: {'active' if self.active else 'off'}"


def in_a_transaction(key: str) -> bool:
    """Count the active links of the team, and switch one off unless it is the last, in atomic().

    What goes wrong: both count two, and each switches off a different one. Neither writes a row
    that the other has written, so no row lock makes them wait, and no error is raised.
    """
    with transaction.atomic():
        if TeamLink.objects.filter(team="red", active=True).count() < 2:
            return False
        TeamLink.objects.filter(key=key).update(active=False)
    return True


def one_statement(key: str) -> bool:
    """Switch a link off in one UPDATE, with the count as a subquery.

    What goes wrong: the UPDATE locks the row that it changes, and reads the other row as it was
    when the statement began. One statement is enough only if it decides by the row that it locks.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE museum_teamlink SET active = false WHERE key = %s AND 1 <"
            " (SELECT count(*) FROM museum_teamlink WHERE team = 'red' AND active)",
            [key],
        )
        return bool(cursor.rowcount)


def with_a_retry(key: str) -> bool:
    """Switch a link off at the level that is set, and try again after a serialization failure.

    What goes wrong: under READ COMMITTED and REPEATABLE READ there is no such failure, because
    neither writes a row that the other has written. Under SERIALIZABLE, nothing goes wrong.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            return in_a_transaction(key)
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure):
                raise
    raise OperationalError(f"Gave up after {MAX_ATTEMPTS} serialization failures.")


def repeatable_read(key: str) -> bool:
    """Switch a link off under REPEATABLE READ, and try again after a serialization failure.

    What goes wrong: both count two, because a snapshot does not show what is committed after it
    was taken. Only a row that both write would cause a failure.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            with transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                if TeamLink.objects.filter(team="red", active=True).count() < 2:
                    return False
                TeamLink.objects.filter(key=key).update(active=False)
            return True
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure):
                raise
    raise OperationalError(f"Gave up after {MAX_ATTEMPTS} serialization failures.")


def serializable(key: str) -> bool:
    """Switch a link off under SERIALIZABLE, and try again after a serialization failure.

    Why nothing can go wrong: PostgreSQL records what each transaction has read, detects that each
    has read what the other writes, and ends one of them. At its next attempt that one counts one.
    It costs memory for what was read, unnecessary failures, and a retry. All transactions that
    write these rows must be SERIALIZABLE too.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            with transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                if TeamLink.objects.filter(team="red", active=True).count() < 2:
                    return False
                TeamLink.objects.filter(key=key).update(active=False)
            return True
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure):
                raise
    raise OperationalError(f"Gave up after {MAX_ATTEMPTS} serialization failures.")


def lock_what_was_read(key: str) -> bool:
    """Lock all links of the team in one order, and switch one off if another one is active.

    Why nothing can go wrong: the rows that the decision rests on are locked before they are read,
    so the second process waits, and then counts one. It costs that wait for every change of a
    link of the team. A new link is not locked, but it can only make the count larger.
    """
    with transaction.atomic():
        links = TeamLink.objects.select_for_update().filter(team="red").order_by("pk")
        if sum(link.active for link in links) < 2:
            return False
        TeamLink.objects.filter(key=key).update(active=False)
    return True


def make_two_active_links(strategy: Strategy) -> None:
    exhibit.make_tables(TeamLink)
    TeamLink.objects.create(id=1, key="a", team="red", active=True)
    TeamLink.objects.create(id=2, key="b", team="red", active=True)


def switch_off_own_link(strategy: Strategy, process: int) -> object:
    return strategy.function("ab"[process - 1])


def check_one_stays_active(outcomes: list[Outcome]) -> str:
    """Check that one link is active, and that one process was told that it switched one off."""
    active = TeamLink.objects.filter(active=True).count()
    done = sum(bool(outcome.returned) for outcome in outcomes)
    if not active:
        return "no link of the team is active"
    if (active, done) == (1, 1):
        return ""
    return f"{active} links are active, and {done} processes were told that they switched one off"


WRITE_SKEW = Race(
    name="write_skew",
    operation="isolation",
    situation=(
        "Each process switches off a different link (TeamLink) of a team of two, unless it is the "
        "last active one."
    ),
    invariant="One link is switched off, and the process of the other is told that it is the last.",
    story=(
        "A team has two links, and one of them must stay active. Each process counts the active "
        "links, finds two, and switches off a different one. Each decision was right when it was "
        "made, and each rests on a row that the other process writes. This is write skew: no row "
        "is written twice, so the row locks of the writes make no process wait, and REPEATABLE "
        "READ detects nothing. A lock on all rows that the decision rests on prevents it, and so "
        "does SERIALIZABLE."
    ),
    strategies=table(
        exhibit.wrong_strategy(in_a_transaction, "count, then switch off, in one transaction"),
        exhibit.wrong_strategy(one_statement, "the same in one UPDATE with a subquery"),
        exhibit.wrong_strategy(with_a_retry, "at the level that is set, with a retry"),
        exhibit.wrong_strategy(repeatable_read, "REPEATABLE READ with a retry"),
        exhibit.right_strategy(serializable, "SERIALIZABLE with a retry"),
        exhibit.right_strategy(lock_what_was_read, "a row lock on all that the decision rests on"),
    ),
    setup=make_two_active_links,
    process=switch_off_own_link,
    check=check_one_stays_active,
    rows=partial(exhibit.describe_rows, TeamLink),
)
