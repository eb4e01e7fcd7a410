"""Why a schedule violates its invariant, in sentences for whoever wrote the function."""

from lab.pages.picture import conflicts as picture
from lab.recording.store import written
from pginterleave import Schedule

CHECKED = "violates check constraint"  # as PostgreSQL says it

# By what a process has raised in the end, or by the driver's error of a step, whichever is first.
HINTS = {
    "TransactionManagementError": (
        "After an error inside atomic() the transaction is aborted. PostgreSQL would refuse every "
        "later statement, and Django does not even send it: it raises TransactionManagementError. "
        "Put what may fail into an atomic() of its own, which is a savepoint, and catch the error "
        "outside of that."
    ),
    "DeadlockDetected": (
        "Each process holds a lock that the other waits for, so PostgreSQL ended one of them. When "
        "all take their locks in the same order, no circle can close."
    ),
    "SerializationFailure": (
        "Under REPEATABLE READ and SERIALIZABLE PostgreSQL refuses to change a row that others "
        "have changed since the transaction began to read. The whole transaction has to be run "
        "again."
    ),
    "LockNotAvailable": (
        "NOWAIT does not wait: it raises an error as soon as somebody else holds the lock, however "
        "soon they would let go. Without it, PostgreSQL waits until they do."
    ),
    CHECKED: (
        "A CHECK of the table refused the write: the row was no longer as it was when it was "
        "looked at. Let the statement that writes have the condition, and change no row where it "
        "does not hold."
    ),
    "IntegrityError": (
        "The key was taken by then, and the unique constraint refused the INSERT. A look "
        "beforehand cannot prevent that: let the INSERT itself decide, and catch its error, or use "
        "ON CONFLICT."
    ),
}
# By the kind of a conflict, where no error explains the schedule.
MEANT = {
    picture.STALE: (
        "Between the read and the write, somebody else has written. Let one UPDATE compute the new "
        "value from the row that it changes, or lock the row before it is read."
    ),
    picture.UNSEEN: (
        "A subquery reads what was there when its statement began, and is not read again after a "
        "wait: only the row that the UPDATE changes is."
    ),
    picture.LATE: (
        "A read sees only what is committed: what others have written by then, and commit later, "
        "is not in it. Lock the row before it is read, as those who write do."
    ),
    picture.ELSEWHERE: (
        "It looks at one table and writes to another, so that what others have written there stops "
        "nobody. Let the condition be about the row that is written, in the same statement."
    ),
    picture.FOREIGN: (
        "To find a row is not to have made it: let the statement that writes say whether it has."
    ),
}
ABSENT = (
    "Somebody looked, found nothing, and has inserted. What is not there cannot be locked: let a "
    "unique constraint decide, or have everybody lock something that is there before the look, "
    "such as a name (pg_advisory_xact_lock), and keep it until the COMMIT."
)
DECIDED = (
    "Nothing is overwritten, and nobody gets an error. So a decision was made by what was read "
    "before, and was no longer true when it was acted upon: let the write itself decide, or lock "
    "before the first look."
)
NEEDS_TRANSACTION = (
    "A row lock is held until the transaction ends, and outside atomic() that is at once: put "
    "`with transaction.atomic():` round the SELECT and the write. This is no race."
)
SKIPS = "SKIP LOCKED passes over a locked row as if it were not there, instead of waiting for it."
HELD = (
    "{} has ended, and its session still holds an advisory lock, which in a service is kept as "
    "long as the connection: the next one waits for ever. pg_advisory_xact_lock ends with the "
    "transaction; pg_advisory_lock needs pg_advisory_unlock in a `finally`"
)
OPEN = "{} ends in the middle of a transaction, which is rolled back with all that it wrote"


def explanations(schedule: Schedule) -> list[str]:
    """Return why the schedule violates its invariant; nothing where it cannot be told."""
    told = hints(schedule)
    if told == [NEEDS_TRANSACTION] or len(schedule.outcomes) == 1:
        return told
    steps = written(schedule, 0, "").steps
    found = picture.conflicts(steps)
    kinds = {each.kind for each in found}
    rests = [each.target for each in found if each.kind == picture.STALE]
    if any(steps[number - 1]["kind"] == "INSERT" for number in rests):
        return [*look_at(found), *(told or [ABSENT])]
    meant = [said for kind, said in MEANT.items() if kind in kinds][:1]
    return [*look_at(found), *(told or meant or [DECIDED])]


def hints(schedule: Schedule) -> list[str]:
    """Return what to know of the errors and the locks of the schedule."""
    raised = [type(each.raised).__name__ for each in schedule.outcomes if each.raised]
    messages = " ".join(str(each.raised) for each in schedule.outcomes if each.raised)
    if "select_for_update cannot be used outside" in messages:
        return [NEEDS_TRANSACTION]
    errors = [step.error for step in schedule.timeline if step.error]
    checked = [CHECKED] if CHECKED in messages else []
    found = [HINTS[name] for name in [*checked, *raised, *errors] if name in HINTS][:1]
    if any("SKIP LOCKED" in step.sql.upper() for step in schedule.timeline):
        found.append(SKIPS)
    return found


def look_at(found: list[picture.Conflict]) -> list[str]:
    """Return the stale reads and the lost writes of a schedule, as one sentence or none."""
    marked = picture.marks(found)
    told = [f"step {number}, {mark}" for number in sorted(marked) for mark in marked[number]]
    return [f"Look at {'; '.join(told)}."] if told else []


def left_behind(schedule: Schedule) -> str:
    """Return what a process has left in its session, which the explorer had to end; or ""."""
    for step in schedule.timeline:
        if not step.filename:  # no line of the function has sent it
            process = f"process {step.process}"
            if step.kind == "CLOSE":
                return HELD.format(process)
            if step.kind == "ROLLBACK":
                return OPEN.format(process)
    return ""
