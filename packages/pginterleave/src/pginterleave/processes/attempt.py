"""One attempt at running a schedule: timing in PostgreSQL may discard it."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from pginterleave.choices import victim_of, write_order
from pginterleave.sql.dependent_steps import Effect, TakenStep


@dataclass
class Attempt:
    """One attempt at running a schedule."""

    fair: bool = True  # whether overtaking a process that waited for longer discards the attempt
    known: int = 0  # how many steps of the schedule have been run before
    waits: dict[int, int] = field(default_factory=dict)  # of victims: see waits_of_victims()
    taken: list[SimpleNamespace] = field(default_factory=list)  # the steps
    effects: list[Effect] = field(default_factory=list)  # the expected effect of each step
    choices: list[int] = field(default_factory=list)  # the choice that led to each step
    other_victims: list[int] = field(default_factory=list)  # of the deadlock just closed
    no_other_victim: bool = False  # whether no other process than the runner can be the victim
    victim_ended: bool = False  # whether the deadlock just closed has ended its planned victim
    undetermined: bool = False  # whether timing in PostgreSQL may have changed the result
    limits: dict[str, None] = field(default_factory=dict)  # see Exploration
    unexplored: dict[str, None] = field(default_factory=dict)  # see Exploration
    discard_reason: str = ""  # why this attempt does not count

    def order(self) -> str:
        return write_order(self.choices)

    def victim(self) -> int:
        """Return the planned victim of the deadlock that the last step closes, or 0."""
        return victim_of(self.choices[-1]) if self.choices else 0

    def steps_of(self, number: int) -> list[TakenStep]:
        """Return the steps that a process has taken, with their effects."""
        taken = zip(self.taken, self.effects, strict=True)
        return [(step, effect) for step, effect in taken if step.process == number]
