"""The scenarios of the exercises, and how they end.

A *scenario* is the first rows and the steps: calls of the function, and edits by somebody else. Its
*end* is what each step came to, and what the rows say.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from django.db import DatabaseError, connection, transaction
from django.db.models import Model
from hypothesis import strategies as st

from lab.models import Notification
from shorturl.models import LinkEvent, QuotaUsage, ReuseClaim, ShortUrl, Subscription

End = dict[str, object]
Function = Callable[..., Any]
Fields = dict[str, st.SearchStrategy[Any]]

LONG_AGO, FAR_AWAY = datetime(2022, 4, 29, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
TARGETS = ["https://one.example/", "https://one.example/?a=b", "https://ONE.example/"]
A_TARGET = st.sampled_from([*TARGETS[:1] * 4, *TARGETS])
STATES: list[dict[str, Any]] = [
    {}, {}, {"hits": 3}, {"hits": 2, "max_hits": 3}, {"max_hits": 2}, {"hits": 2, "max_hits": 2},
    {"deleted_at": LONG_AGO}, {"expires_at": LONG_AGO}, {"expires_at": FAR_AWAY},
]  # fmt: skip
LIVE_STATES = [STATES[at] for at in (0, 2, 3, 3, 4, 8)]
EMPTIED = [ShortUrl, QuotaUsage, ReuseClaim, LinkEvent, Subscription, Notification]
EMPTY = "".join(f"DELETE FROM {each._meta.db_table};" for each in EMPTIED)  # noqa: S608
EMPTY += """
    INSERT INTO auth_user (id, username, password, first_name, last_name, email, is_superuser,
        is_staff, is_active, date_joined)
    SELECT id, id, '', '', '', '', false, false, true, now() FROM generate_series(1, 2) AS id
    ON CONFLICT DO NOTHING
"""
# A clock sets created_at, and which ids are next is chance.
NOT_COMPARED = {"id", "key", "created_at"}
COMPARED = [
    each.attname for each in ShortUrl._meta.concrete_fields if each.name not in NOT_COMPARED
]
SESSION = """
    SELECT 'process ' || pg_backend_pid()
        || coalesce(string_agg(', ' || name || ' = ' || setting, '' ORDER BY name), ''),
        EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')
    FROM pg_show_all_settings()
    WHERE source = 'session' AND setting <> reset_val OR name LIKE 'transaction_%'
"""


class Row(NamedTuple):
    """A row; as a step, somebody else inserts it."""

    model: type[Model]
    fields: dict[str, Any]

    def __call__(self, function: Function, number: int, *, at_once: bool = False) -> str:
        return told(lambda: f"inserts {self.model._base_manager.create(**self.fields).pk}")

    def __str__(self) -> str:
        shown = {name: value for name, value in self.fields.items() if value not in (None, "")}
        return f"{self.model.__name__}({_listed(shown)})"


@dataclass(frozen=True)
class Scenario:
    rows: Iterable[Row | None]
    steps: Sequence[Any]
    earlier: Sequence[Any] = ()  # steps before these

    def setup(self, function: Function) -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(EMPTY)
            for row in filter(None, self.rows):
                row.model._base_manager.create(**row.fields)
        for step in self.earlier:
            step(function, 9, at_once=True)

    def __str__(self) -> str:
        rows = ", ".join(map(str, filter(None, self.rows))) or "no rows"
        steps = (f"({number}) {each}" for number, each in enumerate(self.steps, 1))
        return f"With {rows}: {', '.join([*map(str, self.earlier), *steps])}"


def _listed(fields: dict[str, Any]) -> str:
    def said(value: object) -> str:
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%d}"
        if isinstance(value, timedelta):
            return f"{value.days} days"
        return getattr(value, "__name__", repr(value))

    return ", ".join(f"{name}={said(value)}" for name, value in fields.items())


PLAIN: Fields = {"target_url": st.just(TARGETS[0]), "owner_id": st.none(), "title": st.just("")}
ANY: Fields = {
    "target_url": A_TARGET,
    "owner_id": st.sampled_from([None, None, None, 1, 2]),
    "title": st.sampled_from(["", "a title"]),
}


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*[usual] * 6, *others])


def link(key: str, given: Fields = ANY, states: Sequence[Any] = STATES) -> st.SearchStrategy[Row]:
    """Make rows of a link in one of these states."""
    own, state = st.fixed_dictionaries(given), st.sampled_from(states)
    return st.builds(lambda own, other: Row(ShortUrl, {"key": key, **own, **other}), own, state)


COMMITTED, ROLLED_BACK = "in a transaction", "in a transaction that is rolled back"
INSIDE = st.sampled_from(["", COMMITTED, ROLLED_BACK])
INSIDE_AT_ONCE = st.sampled_from(["", "", COMMITTED, COMMITTED, ROLLED_BACK])
FAILURES = ["ValueError", "KeyTaken", "KeySpaceExhausted", "IntegrityError"]
FAILS, FAILS_SELDOM = (st.sampled_from([*[""] * many, *FAILURES]) for many in (7, 15))


class Undone(Exception):
    """Rolls the caller's transaction back."""


class NoCallersTransaction(BaseException):
    """The solution refuses to run in a caller's transaction, as with durable=True."""


@dataclass(frozen=True)
class Call:
    """A call of the function, by itself or inside a transaction of its caller's."""

    name: ClassVar[str]
    inside: str = ""

    def __str__(self) -> str:
        shown = {n: v for n, v in vars(self).items() if v not in (None, "") or n == "keys"}
        shown.pop("inside", "")
        return f"{self.name}({_listed(shown)}) {self.inside}".strip()

    def ask(self, function: Function, number: int, *, at_once: bool) -> str:
        """Call the function, and say what it returns; its exceptions are raised."""
        raise NotImplementedError

    def turn(self, function: Function, number: int, turn: int) -> str:
        """Call the function in a process of the operating system that calls it repeatedly."""
        return self(function, number, at_once=True)

    def __call__(self, function: Function, number: int, *, at_once: bool = False) -> str:
        before = "" if at_once else session()
        said = told(lambda: self._inside(function, number, at_once=at_once))
        if not at_once and (after := session()) != before:
            said += f", and leaves another session: {after} instead of {before}"
        return said

    def _inside(self, function: Function, number: int, *, at_once: bool) -> str:
        if not self.inside:
            return self.ask(function, number, at_once=at_once)
        with suppress(Undone), transaction.atomic():
            Notification.objects.create(text=f"before call {number}")
            before = "" if at_once else session()
            try:
                said = self.ask(function, number, at_once=at_once)
            except DatabaseError:
                raise
            except Exception as error:  # the caller goes on
                said = raises(error)
            if not at_once and session() != before:
                said += ", and changes the settings of the caller's transaction"
            Notification.objects.create(text=f"after call {number}")
            if self.inside == ROLLED_BACK:
                raise Undone
        return said


class Edit(NamedTuple):
    """Somebody else changes a link, and sees its hits."""

    key: str
    fields: dict[str, Any]

    def __call__(self, function: Function, number: int, *, at_once: bool = False) -> str:
        columns = ", ".join(f"{name} = %s" for name in self.fields)
        update = f"UPDATE shorturl_shorturl SET {columns} WHERE key = %s RETURNING hits"  # noqa: S608

        def edit() -> str:
            with connection.cursor() as cursor:
                cursor.execute(update, [*self.fields.values(), self.key])
                return f"sees {cursor.fetchall()}"

        return told(edit)

    def __str__(self) -> str:
        return f"somebody sets {_listed(self.fields)} of {self.key}"


def told(call: Callable[[], str]) -> str:
    try:
        return call()
    except Exception as error:
        return raises(error)


def raises(error: Exception) -> str:
    if is_refusal(error):
        raise NoCallersTransaction
    what = f": {error}" if isinstance(error, AssertionError) else ""  # of these tests
    return f"raises {type(error).__name__}{what}"


def is_refusal(error: Exception) -> bool:
    """Return whether a caller's transaction is refused, as by durable=True."""
    return isinstance(error, RuntimeError) and connection.in_atomic_block


def fail(how: str) -> None:
    """Raise one of FAILURES, as the caller's own code does."""
    if how == "ValueError":
        raise ValueError("refused")
    if how.startswith("Key"):
        raise getattr(ShortUrl, how)("taken")
    if how == "IntegrityError":
        ShortUrl.objects.create(key="unlimited", target_url="x", max_hits=0)


def session() -> str:
    """Say what a call must leave as it was in its session."""
    with connection.cursor() as cursor:
        cursor.execute(SESSION)
        said, locks = cursor.fetchone()
    if connection.in_atomic_block:  # its locks end with it
        return f"{said}, in a transaction"
    held = ", an advisory lock" if locks else ""
    return f"{said}{held}{'' if connection.get_autocommit() else ', autocommit off'}"


def left() -> End:
    """Return what the rows say, but for ids, created_at and counters of nothing."""
    end: End = {}
    for row in ShortUrl.objects.values("key", *COMPARED):
        end |= {f"{name} of {row['key']}": row[name] for name in COMPARED}
    for used in QuotaUsage.objects.exclude(spent=0):
        days = f"{used.period.days} days" if used.period else "no period"
        end[f"spent by {used.spender} in {days} since {used.since:%Y-%m-%d}"] = used.spent
    notes = Notification.objects.order_by("text").values_list("text", flat=True)
    return end | {"the rows of the callers": [*notes]}


def difference(end: End, right: End) -> str:
    names = [each for each in {**end, **right} if end.get(each) != right.get(each)]
    shown = [{name: repr(value) for name, value in each.items()} for each in (end, right)]
    return "; ".join(
        "{} is {}, and {} is right".format(each, *(some.get(each, "nothing") for some in shown))
        for each in names[:3]
    )
