"""What the templates of a schedule show: the pictures, and the table of the steps."""

from typing import Any

from pginterleave.picture.cells import Picture
from pginterleave.picture.conflicts import find_marks
from pginterleave.picture.history import NEW_ROW
from pginterleave.picture.layout import draw_for_screens


def draw_pictures(picture: Picture, description: str) -> dict[str, Any]:
    """Return the drawings of a picture, wide and narrow, and which signs their legend explains."""
    return {
        "drawings": draw_for_screens(picture),
        "description": description,
        "has_transaction": bool(picture.transactions),
        "has_lock": bool(picture.locks),
        # The lock of a new row is drawn without its mode.
        "has_mode": any(lock.mode != NEW_ROW for lock in picture.locks),
    }


def make_table(picture: Picture) -> dict[str, Any]:
    """Return the rows of the table of steps, each with a field for each process."""
    rows = []
    marks_by_step = find_marks(picture.conflicts)
    sentences = dict(enumerate(picture.sentences, start=1))  # of the steps that are not hidden
    for number, step in enumerate(picture.all_steps, start=1):
        fields: list[dict[str, Any]] = [{} for _ in range(picture.processes)]
        for earlier_number, earlier in enumerate(picture.all_steps[: number - 1], start=1):
            field = fields[earlier["process"] - 1]
            if earlier["until"] == number:  # the wait of the earlier step ends with this one
                field["back"] = {"step": earlier, "number": earlier_number}
            elif earlier["until"] > number:
                field["waiting"] = True
        field = fields[step["process"] - 1]
        field["step"] = step
        field["marks"] = marks_by_step.get(number, [])
        sentence = sentences.get(number, "")
        rows.append({"number": number, "step": step, "fields": fields, "sentence": sentence})
    return {
        "rows": rows,
        "processes": range(1, picture.processes + 1),
        "observes": any(step["observed"] for step in picture.all_steps),
    }
