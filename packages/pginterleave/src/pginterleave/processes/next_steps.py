"""What the next step of a process would do to other processes, and which row it wants to lock."""

from pginterleave.processes.attempt import Attempt
from pginterleave.processes.process import Process
from pginterleave.sql.dependent_steps import (
    GLOBAL,
    Claim,
    Effect,
    claim,
    effect,
    of_open_transaction,
)
from pginterleave.sql.pg_catalog import Catalogue


def effect_of(process: Process, attempt: Attempt, catalogue: Catalogue) -> Effect:
    """Return the effect of the next step."""
    session, earlier = process.session, attempt.taken_by(process.number)
    if process.step.database or any(step.database for step, _ in earlier):
        return GLOBAL  # the catalogue of the other database is not known
    return effect(
        process.step,
        [step for step, _ in earlier],
        serializable=session.is_serializable(),
        commits=not (session.commit_is_a_step or session.in_transaction()),
        failed=bool(process.sqlstate),
        special=catalogue.special,
        special_writes=catalogue.special_writes,
        tables=catalogue.tables if session.is_read_committed() else None,
        open_effects=[effect for _, effect in of_open_transaction(earlier)],
    )


def claim_of(
    process: Process, attempt: Attempt, catalogue: Catalogue, effect: Effect | None
) -> Claim:
    """Return the claim of a process; an empty one without an effect, as of one that waits."""
    if effect is None:
        return Claim()
    return claim(process.step, effect, attempt.taken_by(process.number), catalogue.tables)
