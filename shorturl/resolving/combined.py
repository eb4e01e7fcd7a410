import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connection

from shorturl.models import ShortUrl

# Seconds: for the statement before to end, and for whoever sends one's own to be told the result,
# which is longer than any statement may take.
PATIENCE, LONGEST = 0.5, 15.0

# What a redirect needs. Each one more takes time; Django reads the others when they are asked for.
COLUMNS = ["id", "key", "target_url", "hits"]
TABLE, *NAMES = map(connection.ops.quote_name, [ShortUrl._meta.db_table, *COLUMNS])
UPDATE = f"""
    UPDATE {TABLE} SET hits = hits + %s
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits <= max_hits - %s)
    RETURNING {", ".join(NAMES)}
"""  # noqa: S608

Row = tuple[object, ...]
Outcome = ShortUrl | BaseException  # of a hit: what is returned, or raised
Counted = tuple[Row, int]  # of a hit: the row, and how many hits of it came later
Count = Callable[[str, Sequence[Any]], Row | None]  # counts hits by one statement, all or none


class Batch:
    """Hits of one key that one statement counts; the first of them sends it."""

    def __init__(self, before: "Batch | None") -> None:
        self.before = before and before.told()
        self.hits: list[object] = []
        self.sent = False
        self.counted: list[Counted] = []
        self.ended: Future[None] | None = None  # which most batches need not tell anybody

    def told(self) -> Future[None]:
        """Return what tells others that the batch has ended; under the lock."""
        self.ended = self.ended or Future()
        return self.ended


class Batches:
    """What the threads of a process share: for each key the last batch that is not counted yet."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.last: dict[str, Batch] = {}


SHARED = Batches()
# Whatever another thread was doing at a fork, the child has no such thread.
os.register_at_fork(after_in_child=SHARED.__init__)  # type: ignore[misc]


def resolve(key: str, *, shared: Batches = SHARED) -> ShortUrl:
    """Count the hits that arrive while a statement is under way with the next one.

    What it does: the first hit of a key sends its statement at once. Those that arrive in this
    process until it has ended become a batch: the first of them then sends one statement for all,
    and each gets a number of the counter of its own. It returns the short URL, and raises
    ShortUrl.DoesNotExist when none is live, and ShortUrl.Contended when the statement before its
    own does not end within half a second. Inside a caller's transaction, whose COMMIT others cannot
    wait for, nothing is combined.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1
        WHERE key = … AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - 1)
        RETURNING id, key, target_url, hits

    or + 2 and - 2, + 3 and - 3, …, as many hits as the batch has. When that finds no row, perhaps
    for want of so many uses, the same with 1 for each hit of the batch.

    Why nothing can go wrong: the database adds to what it has and looks whether the link is live,
    as in `update_returning`, and no hit is answered before the statement that counts it is
    committed. A killed process takes only hits with it that nobody was told of. An error is raised
    for every hit of its batch that is not counted, and an OperationalError, as of a locked row, for
    those who wait behind it, too. Each key has batches of its own: one whose row is locked stops no
    other, and as a statement locks one row, no two can deadlock.

    What it costs: a hit may wait for the statement before its own. A row is locked, written and
    committed once for many hits, and only one connection of a process waits for it.

    When to use it: for links that many follow at once, where a process has several threads.
    """
    return returned(count_with_others(key, [None], count, shared)[0])


def resolve_together(
    key: str, hits: Sequence[object], *, shared: Batches = SHARED
) -> list[Outcome]:
    """Return, for each hit of a caller that has several at once, what resolve() returns or raises.

    They are in one batch, with those of other callers.
    """
    return count_with_others(key, hits, count, shared)


def count_with_others(
    key: str, hits: Sequence[object], count: Count, shared: Batches
) -> list[Outcome]:
    """Have `count` count the hits, with those that arrive meanwhile; return what each comes to."""
    if connection.in_atomic_block:
        counted = list(count_batch(key, hits, count))
        return [as_counted(key, counted, number) for number in range(1, len(hits) + 1)]
    with shared.lock:
        batch = shared.last.get(key)
        leads = batch is None or batch.sent
        if batch is None or leads:
            batch = shared.last[key] = Batch(batch)
        numbers = range(len(batch.hits) + 1, len(batch.hits) + len(hits) + 1)
        batch.hits.extend(hits)
        ended = None if leads else batch.told()
    try:
        error = ended.exception(LONGEST) if ended else send(key, batch, count, shared)
    except TimeoutError as late:  # of a statement that may be committed yet
        raise OperationalError(f"A hit of {key!r} was sent, and no answer came.") from late
    return [as_counted(key, batch.counted, number, error) for number in numbers]


def send(key: str, batch: Batch, count: Count, shared: Batches) -> BaseException | None:
    """Count a batch when the one before it has ended; return the error that it ends in, if any."""
    failed = None
    try:
        if batch.before:
            wait_for(batch.before, key)
        with shared.lock:
            batch.sent = True
        for counted in count_batch(key, batch.hits, count):  # kept when the next one fails
            batch.counted.append(counted)
    except BaseException as error:
        failed = error
    with shared.lock:
        if shared.last.get(key) is batch:
            del shared.last[key]
    if batch.ended:
        batch.ended.set_exception(failed)
    return failed


def wait_for(before: Future[None], key: str) -> None:
    """Return when the statement before has ended; raise what the next one would end in, too."""
    try:
        error = before.exception(PATIENCE)
    except TimeoutError as late:
        raise ShortUrl.Contended(key, 1) from late
    if isinstance(error, OperationalError):
        raise error  # the next one would wait for the same lock, and as long again


def count_batch(key: str, hits: Sequence[object], count: Count) -> Iterator[Counted]:
    """Count all the hits of a batch, or, where not all have a use left, one after the other."""
    if row := count(key, hits):
        yield from ((row, later) for later in reversed(range(len(hits))))
        return
    for hit in hits if len(hits) > 1 else ():
        row = count(key, [hit])
        if row is None:
            return
        yield row, 0


def count(key: str, batch: Sequence[object]) -> Row | None:
    """Add so many hits, and return the row, or None if there is none with so many uses left."""
    hits = len(batch)
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [hits, key, hits])
        return cursor.fetchone()  # type: ignore[no-any-return]


def as_counted(
    key: str, counted: list[Counted], number: int, error: BaseException | None = None
) -> Outcome:
    """Return the short URL as it was when this hit of its batch was counted, or why it was not."""
    if number > len(counted):
        return error or ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    row, later = counted[number - 1]
    short_url = ShortUrl.from_db(DEFAULT_DB_ALIAS, COLUMNS, row)
    short_url.hits -= later
    return short_url


def returned(outcome: Outcome) -> ShortUrl:
    """Return the short URL, or raise what is raised in its place."""
    if isinstance(outcome, ShortUrl):
        return outcome
    raise outcome
