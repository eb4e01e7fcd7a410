"""Judges a solution of an exercise: in each scenario it has to do as the reference does.

A *scenario* is the first rows and the steps. Alone, the solution returns, raises and leaves behind
what the reference does. At once, each schedule ends as one of the reference's serial orders. How a
scenario has ended is an `End`: sentences on what each step came to, and on the rows.
"""

import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.db.models import Model
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lab.exercises import processes
from lab.models import Notification
from pginterleave import InterleaveError, NotDeterministic, Outcome, StepTimeout, explore
from shorturl.models import LinkEvent, QuotaUsage, ReuseClaim, ShortUrl, Subscription

End = dict[str, object]
Function = Callable[..., Any]

LIMITS: dict[str, Any] = {"max_steps": 100, "step_timeout": 8.0}
SCHEDULES = {2: 100, 3: 50}  # of a scenario, by the number of processes
SHRINKING = 5.0  # seconds
STATEMENTS = 6_000  # in one call: 1,000 attempts of some statements each
PATIENCE = 20  # seconds for one call, which takes milliseconds
LONG_AGO, FAR_AWAY = datetime(2022, 4, 29, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
FIELDS = [each.attname for each in ShortUrl._meta.concrete_fields if each.attname != "created_at"]
EMPTIED: list[type[Model]] = [ShortUrl, QuotaUsage, ReuseClaim, LinkEvent, Subscription, Notification]
SESSION = """
    SELECT 'session ' || pg_backend_pid()
        || coalesce(', ' || string_agg(name || ' = ' || setting, ', ' ORDER BY name), '')
    FROM pg_settings WHERE source = 'session' OR name LIKE 'transaction_%'
"""
LOCKS = "SELECT 1 FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
ADVICE = {  # by what the drawing of a schedule has
    "select_for_update cannot be used": (
        "A row lock lasts until the transaction ends. Outside atomic() each statement is a "
        "transaction."
    ),
    "TransactionManagementError": (
        "After an error PostgreSQL refuses the rest of the transaction. Put the statement that may "
        "fail into a nested atomic(), which is a savepoint, and catch the error outside it."
    ),
    "DeadlockDetected": "A deadlock is impossible if all take their locks in the same order.",
    "SerializationFailure": (
        "PostgreSQL refused to change a row that another transaction had changed since the "
        "snapshot of this one. The whole transaction has to be run again."
    ),
    "LockNotAvailable": "With NOWAIT a locked row is an error; without it, PostgreSQL waits.",
    "SKIP LOCKED": "SKIP LOCKED ignores a locked row, as if it did not exist.",
}


class Refused(Exception):
    """A sentence on what was done, what came of it and what is right."""

    def __init__(self, *parts: str, is_final: bool = False) -> None:
        super().__init__("\n\n".join(filter(None, parts)))
        self.is_final = is_final  # it takes too long to run it again


class Endless(BaseException):
    """Ends a call that sends too many statements or takes too long."""


class Undone(Exception):
    """Rolls the caller's transaction back."""


class NoCallersTransaction(Exception):
    """The solution is durable=True, and so refuses to run in a caller's transaction."""


# Scenarios.


class Row(NamedTuple):
    model: type[Model]
    fields: dict[str, Any]

    def __str__(self) -> str:
        shown = (f"{name}={_said(value)}" for name, value in self.fields.items() if value is not None)
        return f"{self.model.__name__}({', '.join(shown)})"


class Scenario(NamedTuple):
    rows: Sequence[Row | None]
    steps: Sequence[Any]  # each a Call, or an Edit by somebody else

    def setup(self) -> None:
        connection.close_if_unusable_or_obsolete()
        with transaction.atomic():
            for model in EMPTIED:
                model._base_manager.all()._raw_delete("default")  # type: ignore[attr-defined]
            owners = [User(id=each, username=str(each)) for each in (1, 2)]
            User.objects.bulk_create(owners, ignore_conflicts=True)
            for row in filter(None, self.rows):
                row.model._base_manager.create(**row.fields)

    def __str__(self) -> str:
        rows, steps = (list(map(str, filter(None, each))) for each in self)
        numbered = [f"{number}: {each}" for number, each in enumerate(steps, 1)]
        return f"With {', '.join(rows) or 'no rows'}, {', '.join(numbered)}"


@dataclass(frozen=True)
class Call:
    """A call of the function, by itself or in a transaction of its caller's."""

    inside: str = ""  # or COMMITTED, or ROLLED_BACK

    def ask(self, function: Function, number: int, *, at_once: bool) -> str:
        """Call the function, and say what it returns; its exceptions are raised."""
        raise NotImplementedError

    def __call__(self, function: Function, number: int, *, at_once: bool = False) -> str:
        before = "" if at_once else session()
        told = self._told(function, number, at_once=at_once)
        if not at_once and (after := session()) != before:
            told += f", and leaves the session changed, from {before} to {after}"
        return told

    def turn(self, function: Function, number: int, turn: int) -> str:
        """Call the function in a process of the operating system that has called it before."""
        return self(function, number, at_once=True)

    def _told(self, function: Function, number: int, *, at_once: bool) -> str:
        try:
            if not self.inside:
                return self.ask(function, number, at_once=at_once)
            with suppress(Undone), transaction.atomic():
                Notification.objects.create(text=f"before call {number}")
                before = "" if at_once else session()
                try:
                    told = self.ask(function, number, at_once=at_once)
                except DatabaseError:
                    raise
                except Exception as error:  # the caller goes on
                    told = raises(error)
                if not at_once and session() != before:
                    told += ", and the settings of the caller's transaction have changed"
                Notification.objects.create(text=f"after call {number}")
                if self.inside == ROLLED_BACK:
                    raise Undone
            return told
        except NoCallersTransaction:
            raise
        except Exception as error:
            return raises(error)


COMMITTED, ROLLED_BACK = "in a transaction", "in a transaction that is rolled back"
INSIDE = st.sampled_from(["", "", COMMITTED, ROLLED_BACK])


def told(call: Callable[[], str]) -> str:
    try:
        return call()
    except Exception as error:
        return raises(error)


def fail(how: str) -> None:
    """Raise one of FAILURES, as the caller's own code does."""
    if how == "ValueError":
        raise ValueError("refused")
    if how == "KeyTaken":
        raise ShortUrl.KeyTaken("taken")
    if how == "IntegrityError":
        ShortUrl.objects.create(key="unlimited", target_url="x", max_hits=0)
    if how == "OperationalError":
        with connection.cursor() as cursor:
            cursor.execute("DO $$BEGIN RAISE 'too late' USING ERRCODE = '40001'; END$$")


FAILURES = ["ValueError", "KeyTaken", "IntegrityError", "OperationalError"]


def raises(error: Exception) -> str:
    if isinstance(error, RuntimeError) and "durable" in str(error):
        raise NoCallersTransaction
    return f"raises {type(error).__name__}"


class Edit(NamedTuple):
    """Somebody else changes a link, and sees its hits."""

    key: str
    fields: dict[str, Any]

    def __call__(self, function: Function, number: int, *, at_once: bool = False) -> str:
        columns = ", ".join(f"{name} = %s" for name in self.fields)
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE shorturl_shorturl SET {columns} WHERE key = %s RETURNING hits",  # noqa: S608
                [*self.fields.values(), self.key],
            )
            return f"sees {cursor.fetchall()}"

    def __str__(self) -> str:
        fields = ", ".join(f"{name} = {_said(value)}" for name, value in self.fields.items())
        return f"somebody sets {fields} of {self.key}"


def _said(value: object) -> str:
    return f"{value:%Y-%m-%d}" if isinstance(value, datetime) else repr(value)


def link(key: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    """Return a strategy for rows of a link in any state."""
    given = {
        "target_url": st.sampled_from(TARGETS),
        "owner_id": st.sampled_from([None, 1, 2]),
        "title": st.sampled_from(["", "a title"]),
        **fields,
    }
    states = st.sampled_from(STATES)
    return st.builds(
        lambda given, state: Row(ShortUrl, {"key": key, **given, **state}),
        st.fixed_dictionaries(given),
        states,
    )


TARGETS = ["https://one.example/", "https://two.example/?a=b"]
PLAIN = {name: st.just(None) for name in ("owner_id",)} | {
    name: st.just("") for name in ("target_url", "title")
}  # the columns of link() that do not matter
STATES: list[dict[str, Any]] = [
    {}, {"hits": 3}, {"hits": 2, "max_hits": 3}, {"max_hits": 2}, {"hits": 2, "max_hits": 2},
    {"deleted_at": LONG_AGO}, {"expires_at": LONG_AGO}, {"expires_at": FAR_AWAY},
]  # fmt: skip


# Ends.


def session() -> str:
    """Say what a call must leave as it was in its session."""
    if not connection.get_autocommit():
        return "a session in a transaction" if connection.in_atomic_block else "autocommit off"
    with connection.cursor() as cursor:
        cursor.execute(SESSION)
        (said,) = cursor.fetchone()
        cursor.execute(LOCKS)
        return said + (", an advisory lock" if cursor.fetchone() else "")


def left() -> End:
    """Return what the rows say, without ids and clock columns that a solution may set."""
    end: End = {}
    for row in ShortUrl.objects.values(*FIELDS[1:]):
        end |= {f"{name} of {row['key']}": row[name] for name in row if name != "key"}
    for used in QuotaUsage.objects.exclude(spent=0):
        period = f"{used.period.days} days" if used.period else "no period"
        end[f"spent by {used.spender} in {period} since {used.since:%Y-%m-%d}"] = used.spent
    notes = Notification.objects.order_by("text").values_list("text", flat=True)
    return end | {"the rows of the callers": [*notes]}


def difference(end: End, right: End) -> str:
    differ = [name for name in {**end, **right} if end.get(name) != right.get(name)]
    texts = [
        f"{name} is {end.get(name)!r}, and {right.get(name)!r} is right" for name in differ[:3]
    ]
    return "; ".join(texts).replace("None,", "nothing,")


@contextmanager
def limited(what: object) -> Iterator[None]:
    """Refuse a call that never ends."""
    sent = itertools.count()

    def count(execute: Any, *given: Any) -> Any:
        if next(sent) > STATEMENTS:
            raise Endless
        return execute(*given)

    def ring(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        with connection.execute_wrapper(count):
            yield
    except Endless:
        connection.close()
        raise Refused(
            f"{what}: the call does not end. Limit each loop, and wait for locks in the database.",
            is_final=True,
        ) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def each(scenarios: st.SearchStrategy[Any], count: int, judge: Callable[[Any], None]) -> None:
    """Judge so many scenarios; one that is refused is made smaller, and fails the test."""
    refused: list[Refused] = []
    until = 0.0

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[*HealthCheck],
    )
    @given(scenarios)
    def run(scenario: Any) -> None:
        nonlocal until
        if refused and (refused[-1].is_final or time.monotonic() > until):
            return
        try:
            judge(scenario)
        except Refused as refusal:
            until = until or time.monotonic() + SHRINKING
            refused.append(refusal)
            raise

    try:
        run()
    except BaseException:
        if not refused:
            raise
    if refused:
        pytest.fail(str(refused[-1]), pytrace=False)


LOCK = "BEGIN; LOCK TABLE {} IN %s MODE"
TROUBLES = {  # what another session does, and how it is undone
    "another session has locked the table": (LOCK % "ACCESS EXCLUSIVE", "ROLLBACK"),
    "another session has locked the table against writes": (LOCK % "SHARE", "ROLLBACK"),
    "another session has locked the table against locks and writes": (LOCK % "EXCLUSIVE", "ROLLBACK"),
    "a CHECK refuses the row": (
        "ALTER TABLE {} ADD CONSTRAINT exercise_ck CHECK (id IS NULL) NOT VALID",
        "ALTER TABLE {} DROP CONSTRAINT exercise_ck",
    ),
    "a trigger violates a unique constraint of another table": (
        "CREATE FUNCTION exercise_twice() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO shorturl_reuseclaim VALUES ('x'), ('x'); RETURN NEW; END$$;"
        "CREATE TRIGGER exercise_twice BEFORE INSERT OR UPDATE ON {}"
        " FOR EACH ROW EXECUTE FUNCTION exercise_twice()",
        "DROP FUNCTION exercise_twice CASCADE",
    ),
}
GAVE_UP = ("raises Contended", "raises OperationalError")  # where many call at once
WAITS_IN_PYTHON = (
    "A process waits in Python, for ever or for another process. A worker on another machine does "
    "not share its locks, files and caches: lock in the database."
)
ENDLESS = "A process may try for ever: limit each loop, and wait for locks in the database."


class Exercise:
    """The tests of an exercise, whose class gives what follows."""

    name: ClassVar[str]  # of the function
    reference: ClassVar[Function]
    table: ClassVar[str]  # that the function writes
    meant: ClassVar[type[Exception]]  # that only the function itself may raise
    alone: ClassVar[st.SearchStrategy[Scenario]]  # steps one after another
    at_once: ClassVar[Callable[[int], st.SearchStrategy[Scenario]]]  # for a number of processes
    ordinary: ClassVar[Scenario]  # one call that writes
    meddling: ClassVar[str] = ""  # how another session changes the row that `ordinary` writes
    try_again: ClassVar[str] = ""  # what a call may be told for now while another one fails
    rush: ClassVar[Scenario]  # steps that each process repeats
    turns: ClassVar[int]
    days: ClassVar[int] = 0  # by which the clocks of these processes differ
    in_transactions: ClassVar[bool] = True  # whether it has to work in a caller's transaction

    def begin(self, scenario: Scenario) -> None:
        scenario.setup()

    def left(self, *, at_once: bool = False) -> End:
        return left()

    @property
    def solution(self) -> Function:
        found: Function = getattr(sys.modules[type(self).__module__], self.name)
        return found

    def end(self, scenario: Scenario, function: Function, order: Sequence[int] = ()) -> End:
        """Run the steps one after another, in this order, and return the end."""
        self.begin(scenario)
        told: End = {}
        for at in order or range(len(scenario.steps)):
            with limited(scenario):
                told[f"what {at + 1} comes to"] = scenario.steps[at](
                    function, at + 1, at_once=bool(order)
                )
        return told | self.left(at_once=bool(order))

    def test_calls_one_after_another(self, interleave: Any) -> None:
        def judge(scenario: Scenario) -> None:
            right = self.end(scenario, type(self).reference)
            try:
                end = self.end(scenario, self.solution)
            except NoCallersTransaction:
                return
            except DatabaseError as error:
                end = {"the session": f"unusable ({error})"}
            finally:
                if not connection.get_autocommit():
                    connection.close()
            if end != right:
                connection.close()
                raise Refused(f"{scenario}. {difference(end, right)}.")

        each(self.alone, 120, judge)

    def test_two_processes_at_once(self, interleave: Any) -> None:
        each(type(self).at_once(2), 16, self._judge_at_once)

    def test_three_processes_at_once(self, interleave: Any) -> None:
        each(type(self).at_once(3), 4, self._judge_at_once)

    def _judge_at_once(self, scenario: Scenario) -> None:
        numbers = range(len(scenario.steps))
        orders = itertools.permutations(numbers)
        ends = [self.end(scenario, type(self).reference, order) for order in orders]
        calls = [
            partial(step, self.solution, at, at_once=True) for at, step in enumerate(scenario.steps, 1)
        ]

        def as_one_after_another(outcomes: list[Outcome]) -> str:
            told = [each.returned for each in outcomes]
            if None in told:  # it refuses a caller's transaction
                return ""
            for at, step in enumerate(scenario.steps):
                if told[at] == self.try_again and any(each.fails for each in scenario.steps):
                    told[at] = replace(step, inside="")(self.solution, at + 1, at_once=True)
            end = {f"what {at + 1} comes to": told[at] for at in numbers}
            end |= self.left(at_once=True)
            nearest = min(ends, key=lambda right: sum(end.get(n) != right.get(n) for n in right))
            return "" if end in ends else difference(end, nearest)

        what = f"{scenario} at once"
        try:
            found = explore(
                calls,
                setup=partial(self.begin, scenario),
                invariant=as_one_after_another,
                expected=NoCallersTransaction,
                count_all=False,
                max_schedules=SCHEDULES[len(calls)],
                **LIMITS,
            )
        except NotDeterministic:  # the calls in plain processes are judged still
            return
        except StepTimeout as error:
            raise Refused(f"{what}. {WAITS_IN_PYTHON}", str(error), is_final=True) from None
        except InterleaveError as error:
            if "max_steps" not in str(error):
                raise
            raise Refused(f"{what}. {ENDLESS}", str(error), is_final=True) from None
        if worst := found.counterexample:
            drawn = worst.draw()
            advice = [said for name, said in ADVICE.items() if name in drawn][:1]
            sentence = f"{what}. {worst.violation}, as one after the other."
            raise Refused(sentence, drawn, *advice)

    def test_processes_of_the_operating_system(self, interleave: Any) -> None:
        """Plain processes, each with another hash seed, repeat their calls on the same rows."""
        self.begin(self.rush)
        told = processes.run(self, self.solution)
        end = self._summary(told)
        self.begin(self.rush)
        steps = [*enumerate(self.rush.steps, 1)]
        right = self._summary(
            [
                [step.turn(type(self).reference, number, turn) for turn in range(self.turns)]
                for number, step in steps
            ]
        )
        if end != right:
            what = f"{len(steps)} processes of the operating system, {self.turns} times each"
            pytest.fail(f"{self.rush}, in {what}. {difference(end, right)}.", pytrace=False)

    def _summary(self, told: list[list[str]]) -> End:
        for number, answers in enumerate(told):
            for turn, answer in enumerate(answers):
                if answer in GAVE_UP:  # it may, and then the caller asks again
                    answers[turn] = self.rush.steps[number].turn(self.solution, number + 1, turn)
        every = sorted(itertools.chain(*told))
        counted = {f"the number of answers {each!r}": every.count(each) for each in {*every}}
        return counted | {
            "the number of links": ShortUrl.objects.count(),
            "the hits": sum(ShortUrl.objects.values_list("hits", flat=True)),
            "what is spent": sum(QuotaUsage.objects.values_list("spent", flat=True)),
            "the number of events": LinkEvent.objects.count(),
        }

    # What no scenario says.

    @pytest.mark.parametrize("trouble", [*TROUBLES])
    def test_an_error_of_postgresql_is_raised(self, interleave: Any, trouble: str) -> None:
        """Another session locks the table, or makes it refuse what is written."""
        right = self.end(self.ordinary, type(self).reference)
        self.begin(self.ordinary)
        before = self.left()
        begin, undo = (sql.format(self.table) for sql in TROUBLES[trouble])
        with another_session() as other, self._limited(f"{self.ordinary} while {trouble}"):
            other.execute(begin)
            settings = "SET lock_timeout = '2ms'; SET statement_timeout = '8s'"
            try:
                with connection.cursor() as cursor:
                    cursor.execute(settings)
                told, error = self._ask()
            finally:
                other.execute(undo)
                connection.close()
        what = f"{self.ordinary} while {trouble}"
        if error:
            self._has_its_cause(what, error)
            right, told = before, f"raises {type(error).__name__}"
        end = self.left()
        if not error:
            end = {"what 1 comes to": told} | end
        if end != right:
            pytest.fail(f"{what} {told}. {difference(end, right)}.", pytrace=False)

    def test_the_row_changes_before_each_statement(self, interleave: Any) -> None:
        """The call gives up after a thousand attempts."""
        if not self.meddling:
            pytest.skip("No other session can make it try again.")
        self.begin(self.ordinary)
        with another_session() as other:
            other.execute("SET lock_timeout = '5ms'")

            def meddle(execute: Any, *given: Any) -> Any:
                with suppress(DatabaseError):
                    other.execute(self.meddling)
                return execute(*given)

            what = f"{self.ordinary}, and another session changes the row before each statement"
            with connection.execute_wrapper(meddle), self._limited(what):
                self._ask()

    def test_a_serialization_failure_is_raised(self, interleave: Any) -> None:
        """The caller's transaction is REPEATABLE READ, and another session changes the row."""
        if not self.meddling or not self.in_transactions:
            pytest.skip("It is not called in a caller's transaction.")
        self.begin(self.ordinary)
        what = f"{self.ordinary} in a REPEATABLE READ transaction, after another session's change"
        with another_session() as other, self._limited(what), suppress(Undone), transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute(f"SELECT 1 FROM {self.table}")  # noqa: S608
            other.execute(self.meddling)
            told, error = self._ask()
            if not error:
                pytest.fail(f"{what} {told}; the serialization failure is right.", pytrace=False)
            self._has_its_cause(what, error)
            raise Undone

    @contextmanager
    def _limited(self, what: str) -> Iterator[None]:
        try:
            with limited(what):
                yield
        except Refused as refusal:
            pytest.fail(str(refusal), pytrace=False)

    def _ask(self) -> tuple[str, Exception | None]:
        try:
            return self.ordinary.steps[0].ask(self.solution, 1, at_once=False), None
        except Exception as error:
            return "", error

    def _has_its_cause(self, what: str, error: Exception) -> None:
        if isinstance(error, RuntimeError) and "durable" in str(error):
            return
        if isinstance(error, self.meant) or not any(
            isinstance(each, DatabaseError) for each in causes(error)
        ):
            pytest.fail(
                f"{what} raises {type(error).__name__}: {error} The error of the database is right, "
                "or another one of which it is the cause.",
                pytrace=False,
            )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@contextmanager
def another_session() -> Iterator[Any]:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            yield cursor
    finally:
        other.close()
