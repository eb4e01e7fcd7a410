"""A table with one counter, and every way to count: what the explorer's tests explore."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Self

from django.db import connection, models, transaction
from django.db.models import F

from pginterleave import Exploration, Options, Outcome, Schedule, explore, run_schedule

Process = Callable[[], object]


class Counter(models.Model):
    """One row of the table that the fixture `counter_table` makes."""

    id = models.IntegerField(primary_key=True)
    key = models.CharField(max_length=20, unique=True)
    hits = models.IntegerField()

    objects: ClassVar[models.Manager["Counter"]] = models.Manager()

    class Meta:
        app_label = "interleave"
        db_table = "interleave_counter"
        managed = False

    def __str__(self) -> str:
        return self.key


class Unmanaged(models.Model):
    """A model of an app that is installed: of `Label`, the test makes the table recipes_label."""

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "recipes"
        managed = False


def sql(statement: str, *params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)
        return cursor.fetchall() if cursor.description else []


def parameters() -> dict[str, Any]:
    """Return the parameters of libpq for a connection to the test database."""
    settings = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    return {name: settings[name] for name in names if settings.get(name)}


def setup() -> None:
    sql("DELETE FROM interleave_counter")
    sql("INSERT INTO interleave_counter VALUES (1, 'a', 0), (2, 'b', 0)")


def hits(key: str = "a") -> int:
    return Counter.objects.get(key=key).hits


def expect_hits(expected: int) -> Callable[[list[Outcome]], str]:
    """Return the invariant: no process failed, and row `a` has the expected hits."""

    def invariant(outcomes: list[Outcome]) -> str:
        failed = [str(outcome.raised) for outcome in outcomes if outcome.raised]
        return "; ".join(failed) or ("" if hits() == expected else f"hits = {hits()}")

    return invariant


def anything(outcomes: list[Outcome]) -> None:
    """Return None, as an invariant that holds."""


def arguments(**given: Any) -> dict[str, Any]:
    """Return arguments of `explore`: `options` with those that are options, and the defaults."""
    names = [field.name for field in fields(Options) if field.name in given]
    options = Options(**{name: given.pop(name) for name in names})
    defaults = {"setup": setup, "invariant": anything, "expected": BaseException}
    return {**defaults, **given, "options": options}


def explore_all(*processes: Process, **given: Any) -> Exploration:
    """Explore the processes; every schedule runs, unless a test says otherwise."""
    return explore(processes, **arguments(**{"reduce": False, **given}))


def explore_both(*processes: Process, **options: Any) -> tuple[Exploration, Exploration]:
    """Explore all schedules and the reduced ones; check that they agree."""
    every, reduced = (explore_all(*processes, reduce=each, **options) for each in (False, True))
    counts = (every.schedules, every.violating, every.truncated)
    assert counts == (len(every.orders), len(every.violations), "")
    assert (reduced.schedules, reduced.violating, reduced.truncated) == counts
    assert set(reduced.orders) <= set(every.orders)
    assert len(set(reduced.orders)) == len(reduced.orders)
    first, second = (each.counterexample and each.counterexample.order for each in (every, reduced))
    assert first == second
    return every, reduced


def violation_of(exploration: Exploration) -> str:
    """Return what is wrong in the counterexample; "" if there is none."""
    return exploration.counterexample.violation if exploration.counterexample else ""


def all_outcomes(*processes: Process, **options: Any) -> dict[str, tuple[Outcome, ...]]:
    """Return the outcomes of the processes, by the order of the schedule."""
    exploration = explore_all(*processes, **{"invariant": lambda _: "violated", **options})
    assert exploration.complete
    assert len(exploration.violations) == exploration.schedules
    return {schedule.order: schedule.outcomes for schedule in exploration.violations}


def replay(order: str, *processes: Process, **given: Any) -> Schedule:
    return run_schedule(order, processes, **arguments(**given))


def naive() -> None:
    counter = Counter.objects.get(key="a")
    counter.hits += 1
    counter.save()


def atomic_only() -> None:
    with transaction.atomic():
        naive()


def select_for_update() -> None:
    with transaction.atomic():
        counter = Counter.objects.select_for_update().get(key="a")
        counter.hits += 1
        counter.save()


def f_expression() -> None:
    counter = Counter.objects.get(key="a")
    counter.hits = F("hits") + 1
    counter.save(update_fields=["hits"])


def update_returning() -> list[Any]:
    return sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a' RETURNING hits")


def compare_and_swap() -> None:
    for _ in range(5):
        seen = Counter.objects.get(key="a").hits
        if Counter.objects.filter(key="a", hits=seen).update(hits=seen + 1):
            return
    raise RuntimeError("five others were faster")


def transact(*statements: str) -> Process:
    """Return a process that sends the statements in one transaction."""

    @transaction.atomic
    def send() -> None:
        for statement in statements:
            sql(statement)

    return send


def lock(*numbers: int, settings: str = "") -> None:
    with transaction.atomic():
        if settings:
            sql(settings)
        for number in numbers:
            sql("SELECT pg_advisory_xact_lock(%s)", number)
