"""The exercises of the workshop: what is to be written, and what judges it.

A student's file begins as a copy of the one in `templates/`, which violates an invariant; the one
in `solutions/` does not. The tests have both judged by `manage.py race check`, like a student's.
"""

from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Exercise:
    """One exercise: `function` is what the student writes, `judges` what `race check` runs on it.

    `task` is what to do, in one sentence.
    """

    name: str
    task: str
    function: str
    judges: tuple[str, ...]

    @property
    def template(self) -> Path:
        """The file that the student's own begins as."""
        return TEMPLATES / f"{self.name}.py"


EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for exercise in (
        Exercise(
            "create",
            "Write a create that holds, also when two draw the same key at once.",
            "create",
            ("collision", "toctou", "toctou_in_a_transaction"),
        ),
        Exercise(
            "resolve",
            "Write a resolve that counts every hit, and leaves alone what others edit.",
            "resolve",
            ("lost_update", "clobbered_edit"),
        ),
        Exercise(
            "schedule",
            "Find a schedule in which a resolve that notices another one still loses a hit.",
            "schedule",
            ("find_the_schedule",),
        ),
        Exercise(
            "limited_use",
            "Let a link be redeemed as often as it may be, and not once more.",
            "redeem",
            ("limited_use",),
        ),
        Exercise(
            "last_use",
            "Write a resolve that lets a link be followed as often as its limit says.",
            "resolve",
            ("last_use", "limit_raised"),
        ),
        Exercise(
            "reuse",
            "Let all who ask for a link to the same target have the same one.",
            "reuse",
            ("same_target", "deleted_target"),
        ),
        Exercise(
            "quota",
            "Let nobody make more links than their quota has left.",
            "spend",
            ("last_link", "new_period", "given_back"),
        ),
        Exercise(
            "crossed_locks",
            "Fix a caller that resolves two keys in one transaction, and runs into a deadlock.",
            "resolve_both",
            ("crossed_calls", "half_a_call"),
        ),
    )
}
