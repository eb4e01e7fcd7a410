"""The tests of all exercises: in each scenario a solution has to do as the reference does.

Alone, it returns, raises and leaves behind what the reference does. At once, each schedule ends as
one of the reference's serial orders. The time that a machine takes decides nothing: the numbers of
scenarios, schedules, statements and turns are fixed.
"""

import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NoReturn

import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis.strategies import SearchStrategy

from lab.exercises import processes, scenarios
from lab.exercises.scenarios import End, Function, Scenario
from pginterleave import InterleaveError, NotDeterministic, Options, Outcome, StepTimeout, explore
from shorturl.models import LinkEvent, QuotaUsage, ShortUrl

ALONE, AT_ONCE, SCHEDULES = 120, {2: 18, 3: 3}, {2: 18, 3: 30}
SHRINKING = 5.0  # seconds
STATEMENTS = 6_000  # in one call: a thousand attempts of some statements each
PATIENCE = 15  # seconds from one statement to the next, which takes milliseconds
WAITS_IN_PYTHON = "A process waits in Python, for ever or for another one: lock in the database."
ENDLESS = "The call does not end: limit each loop, and wait for locks in the database."
LOCK = "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE {} IN %s MODE"
TROUBLES = {  # what another session does, and how it is undone
    "another session has locked the table": (LOCK % "ACCESS EXCLUSIVE", "ROLLBACK"),
    "another session has locked the table against locks": (LOCK % "EXCLUSIVE", "ROLLBACK"),
    "another session has locked the table against writes": (LOCK % "SHARE", "ROLLBACK"),
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


class Refused(Exception):
    """A sentence on what was done, what came of it and what is right."""

    def __init__(self, *parts: str, is_final: bool = False) -> None:
        super().__init__("\n\n".join(parts))
        self.is_final = is_final  # it takes too long to be made smaller


class Endless(BaseException):
    """Ends a call that sends too many statements or takes too long."""


class Exercise:
    """The tests; the class of an exercise gives what follows."""

    name: ClassVar[str]  # of the function
    reference: ClassVar[Function]
    table: ClassVar[str]  # that the function writes
    meant: ClassVar[type[Exception]]  # that stands for no error of the database
    alone: ClassVar[SearchStrategy[Scenario]]  # steps one after another
    ordinary: ClassVar[Scenario]  # one call that writes
    meddling: ClassVar[str] = "SELECT 1"  # how another session changes the row that it writes
    rush: ClassVar[Scenario]  # the calls that processes repeat
    turns: ClassVar[int]
    days: ClassVar[int] = 0  # by which the clocks of these processes differ
    may_fail_to_serialize: ClassVar[bool] = False  # in a caller's transaction, after meddling
    try_again: ClassVar[str] = ""  # what a call may be told for now, while another one fails

    @staticmethod
    def at_once(processes: int) -> SearchStrategy[Scenario]:
        """Make scenarios with a step for each process."""
        raise NotImplementedError

    @property
    def solution(self) -> Function:
        found: Function = getattr(sys.modules[type(self).__module__], self.name)
        return found

    def begin(self, scenario: Scenario, function: Function | None = None) -> None:
        scenario.setup(function or self.solution)

    def left(self, *, at_once: bool = False) -> End:
        return scenarios.left()

    def end(self, scenario: Scenario, function: Function, order: Sequence[int] = ()) -> End:
        """Run the steps one after another, in this order if they may be at once."""
        self.begin(scenario, function)
        end: End = {}
        for at in order or range(len(scenario.steps)):
            with limited(str(scenario)):
                said = scenario.steps[at](function, at + 1, at_once=bool(order))
            end[f"the result of ({at + 1})"] = said
        return end | self.left(at_once=bool(order))

    def test_calls_one_after_another(self, interleave: Any) -> None:
        def judge(scenario: Scenario) -> None:
            right = self.end(scenario, type(self).reference)
            try:
                end = self.end(scenario, self.solution)
            except scenarios.NoCallersTransaction:
                return
            except DatabaseError as error:
                end = {"the session": f"unusable ({error})"}
            if end != right:
                connection.close()  # it may be in any state
                raise Refused(f"{scenario}. Then {scenarios.difference(end, right)}.")

        each(self.alone, ALONE, judge)

    @pytest.mark.parametrize("processes", [2, 3])
    def test_processes_at_once(self, interleave: Any, processes: int) -> None:
        each(self.at_once(processes), AT_ONCE[processes], self._judge_at_once)

    def _judge_at_once(self, scenario: Scenario) -> None:
        steps = scenario.steps
        orders = itertools.permutations(range(len(steps)))
        ends = [self.end(scenario, type(self).reference, order) for order in orders]

        def as_one_after_another(outcomes: list[Outcome]) -> str:
            if any(each.raised for each in outcomes):  # a caller's transaction is refused
                return ""
            end: End = {}
            for at, (step, outcome) in enumerate(zip(steps, outcomes, strict=True), 1):
                said = outcome.returned
                if said == self.try_again and any(getattr(each, "fails", "") for each in steps):
                    said = replace(step, inside="")(self.solution, at, at_once=True)
                end[f"the result of ({at})"] = said
            end |= self.left(at_once=True)
            differences = [scenarios.difference(end, each) for each in ends]
            return "" if "" in differences else min(differences, key=len)

        what = f"{scenario} at once"
        calls = [partial(step, self.solution, at, at_once=True) for at, step in enumerate(steps, 1)]
        try:
            found = explore(
                calls,
                setup=partial(self.begin, scenario),
                invariant=as_one_after_another,
                expected=scenarios.NoCallersTransaction,
                count_all=False,
                max_schedules=SCHEDULES[len(steps)],
                options=Options(max_steps=100, step_timeout=8.0),
            )
        except NotDeterministic:  # other tests judge it still
            return
        except StepTimeout as error:
            raise Refused(f"{what}. {WAITS_IN_PYTHON}", str(error), is_final=True) from None
        except InterleaveError as error:
            if "max_steps" not in str(error):
                raise
            raise Refused(f"{what}. {ENDLESS}", str(error), is_final=True) from None
        if worst := found.counterexample:
            sentence = f"{what}. Then {worst.violation}, as one after the other."
            raise Refused(sentence, worst.draw())

    def test_processes_of_the_operating_system(self, interleave: Any) -> None:
        """They call it repeatedly, and count the answers as if they had been one after another."""
        steps = [*enumerate(self.rush.steps, 1)]
        self.begin(self.rush)
        end = self.summary(processes.run(self, self.solution))
        self.begin(self.rush)
        reference = type(self).reference
        right = self.summary(
            [[step.turn(reference, at, turn) for turn in range(self.turns)] for at, step in steps]
        )
        if end != right:
            what = f"{self.rush}, {self.turns} times in processes of the operating system"
            refuse(f"{what}. Then {scenarios.difference(end, right)}.")

    def summary(self, told: list[list[str]]) -> End:
        for (at, step), answers in zip(enumerate(self.rush.steps, 1), told, strict=True):
            for turn, answer in enumerate(answers):
                if self.gives_up(answer):  # the caller asks again
                    answers[turn] = step.turn(self.solution, at, turn)
        every = sorted(itertools.chain(*told))
        end: End = {f"the number of answers {each!r}": every.count(each) for each in every}
        return end | {
            "the number of links": ShortUrl.objects.count(),
            "the number of hits": sum(ShortUrl.objects.values_list("hits", flat=True)),
            "what is spent": sum(QuotaUsage.objects.values_list("spent", flat=True)),
            "the number of events": LinkEvent.objects.count(),
        }

    def gives_up(self, answer: str) -> bool:
        """Return whether a call among many says that it is not done, in an error of its own."""
        refused = {f"raises {self.meant.__name__}", "raises IntegrityError"}
        return answer.startswith("raises ") and answer not in refused

    @pytest.mark.parametrize("trouble", [*TROUBLES])
    def test_an_error_of_the_database_is_raised(self, interleave: Any, trouble: str) -> None:
        """Another session locks the table, or makes it refuse what is written."""
        right = self.end(self.ordinary, type(self).reference)
        self.begin(self.ordinary)
        before, what = self.left(), f"{self.ordinary} while {trouble}"
        begin, undo = (sql.format(self.table) for sql in TROUBLES[trouble])
        with another_session() as other:
            other.execute(begin)
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '1ms'; SET statement_timeout = '8s'")
                said, error = self._ask(what)
            finally:
                other.execute(undo)
                connection.close()
        end = self.left()
        if error:
            self._has_its_cause(what, error)
            right = before
        else:  # it has written nothing that the table refuses
            end = {"the result of (1)": said} | end
        if end != right:
            refuse(f"{what}. Then {scenarios.difference(end, right)}.")

    def test_it_gives_up(self, interleave: Any) -> None:
        """Another session changes the rows before each statement."""
        self.begin(self.ordinary)
        with another_session() as other:
            other.execute("SET default_transaction_isolation = serializable; SET lock_timeout = 5")

            def meddle(execute: Any, *given: Any) -> Any:
                with suppress(DatabaseError):
                    other.execute(self.meddling)
                return execute(*given)

            with connection.execute_wrapper(meddle):
                self._ask(
                    f"{self.ordinary}, while another session changes the rows before each statement"
                )

    def test_a_serialization_failure_is_raised(self, interleave: Any) -> None:
        """The caller's transaction is REPEATABLE READ, and another session changes the row."""
        if not self.may_fail_to_serialize:
            pytest.skip("A change of another session does not make it fail.")
        self.begin(self.ordinary)
        what = f"{self.ordinary} in a REPEATABLE READ transaction, after another session's change"
        with another_session() as other, suppress(scenarios.Undone), transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute(f"SELECT 1 FROM {self.table}")  # noqa: S608
            other.execute(self.meddling)
            said, error = self._ask(what)
            if not error:
                refuse(f"{what}. It {said}, and a serialization failure is right.")
            self._has_its_cause(what, error)
            raise scenarios.Undone

    def _ask(self, what: str) -> tuple[str, Exception | None]:
        try:
            with limited(what):
                return self.ordinary.steps[0].ask(self.solution, 1, at_once=False), None
        except Refused as refusal:
            refuse(str(refusal))
        except Exception as error:
            return "", error

    def _has_its_cause(self, what: str, error: Exception) -> None:
        if scenarios.is_refusal(error):
            return
        known = any(isinstance(each, DatabaseError) for each in causes(error))
        if isinstance(error, self.meant) or not known:
            refuse(
                f"{what}. It raises {type(error).__name__} ({error}), and the error of the "
                "database is right, or another one of which it is the cause."
            )


def refuse(sentence: str) -> NoReturn:
    pytest.fail(sentence, pytrace=False)


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


@contextmanager
def limited(what: str) -> Iterator[None]:
    """Refuse a call that never ends."""
    sent = itertools.count()

    def count(execute: Any, *given: Any) -> Any:
        if next(sent) > STATEMENTS:
            raise Endless
        signal.alarm(PATIENCE)
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
        raise Refused(f"{what}. {ENDLESS}", is_final=True) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def each(some: SearchStrategy[Any], count: int, judge: Callable[[Any], None]) -> None:
    """Judge so many scenarios; one that is refused is made smaller, and fails the test."""
    refusals: list[Refused] = []
    judged: set[str] = set()
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
    @given(some)
    def run(scenario: Any) -> None:
        nonlocal until
        if refusals and (refusals[-1].is_final or time.monotonic() > until):
            return
        assume(refusals or str(scenario) not in judged)
        judged.add(str(scenario))
        try:
            judge(scenario)
        except Refused as refusal:
            until = until or time.monotonic() + SHRINKING
            refusals.append(refusal)
            raise

    try:
        run()
    except BaseException:
        if not refusals:
            raise
    if refusals:
        refuse(str(refusals[-1]))
