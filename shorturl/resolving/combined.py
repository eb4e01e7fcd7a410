import os
import threading
from concurrent.futures import Future

from django.db import OperationalError, connection

from shorturl.models import ShortUrl

# Seconds: for the statement before to end, and for whoever sends one's own to be told the result,
# which is longer than any statement may take.
PATIENCE, LONGEST = 0.5, 15.0

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
TABLE, *NAMES = map(connection.ops.quote_name, [ShortUrl._meta.db_table, *COLUMNS])
UPDATE = f"UPDATE {TABLE} SET hits = hits + %s WHERE key = %s RETURNING {', '.join(NAMES)}"  # noqa: S608


class Batch:
    """Hits of one key that one statement counts; the first of them sends it."""

    def __init__(self, before: "Batch | None") -> None:
        self.before = before and before.row
        self.hits = 0
        self.sent = False
        self.row: Future[tuple[object, ...] | None] = Future()


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
    ShortUrl.DoesNotExist when there is none, and ShortUrl.Contended when the statement before its
    own does not end within half a second. Inside a caller's transaction, whose COMMIT others cannot
    wait for, nothing is combined.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = … RETURNING id, key, …

    or + 2, + 3, …, as many hits as the batch has: at most one for each thread.

    Why nothing can go wrong: the database adds to what it has, as in `update_returning`, and no hit
    is answered before the statement that counts it is committed. A killed process takes only hits
    with it that nobody was told of. An error is raised for every hit of its batch, and an
    OperationalError, as of a locked row, for those who wait behind it, too. Each key has batches of
    its own: one whose row is locked stops no other, and as a statement locks one row, no two can
    deadlock.

    What it costs: a hit may wait for the statement before its own. A row is locked, written and
    committed once for many hits, and only one connection of a process waits for it.

    When to use it: for links that many follow at once, where a process has several threads.
    """
    if connection.in_atomic_block:
        return as_counted(key, count(key, 1), later=0)
    with shared.lock:
        batch = shared.last.get(key)
        leads = batch is None or batch.sent
        if batch is None or leads:
            batch = shared.last[key] = Batch(batch)
        batch.hits += 1
        number = batch.hits
    if leads:
        send(key, batch, shared)
    try:
        row = batch.row.result(LONGEST)
    except TimeoutError as error:  # of a statement that may be committed yet
        raise OperationalError(f"A hit of {key!r} was sent, and no answer came.") from error
    return as_counted(key, row, later=batch.hits - number)


def send(key: str, batch: Batch, shared: Batches) -> None:
    """Count a batch when the one before it has ended."""
    try:
        if batch.before:
            wait_for(batch.before, key)
        with shared.lock:
            batch.sent = True
        batch.row.set_result(count(key, batch.hits))
    except BaseException as error:
        batch.row.set_exception(error)
    finally:
        with shared.lock:
            if shared.last.get(key) is batch:
                del shared.last[key]


def wait_for(before: Future[tuple[object, ...] | None], key: str) -> None:
    """Return when the statement before has ended; raise what the next one would end in, too."""
    try:
        error = before.exception(PATIENCE)
    except TimeoutError as late:
        raise ShortUrl.Contended(key, 1) from late
    if isinstance(error, OperationalError):
        raise error  # the next one would wait for the same lock, and as long again


def count(key: str, hits: int) -> tuple[object, ...] | None:
    """Add so many hits, and return the row, or None if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [hits, key])
        return cursor.fetchone()  # type: ignore[no-any-return]


def as_counted(key: str, row: tuple[object, ...] | None, *, later: int) -> ShortUrl:
    """Return the short URL as it was when `later` hits of its batch were still to come."""
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no short URL {key!r}.")
    short_url = ShortUrl.from_db(connection.alias, COLUMNS, row)
    short_url.hits -= later
    return short_url
