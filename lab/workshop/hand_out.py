"""What `manage.py race exercise` prints and writes."""

import os
import shlex
import sys
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path

from lab.exceptions import CannotHandOut
from lab.workshop.exercises import EXERCISES, Exercise


def listing() -> Iterator[str]:
    """Yield the lines that list the exercises."""
    for exercise in EXERCISES.values():
        yield f"{exercise.name}: {exercise.task}"
        for judge in exercise.judges:
            yield f"    judged by: race check {judge} exercises.{exercise.name}:{exercise.function}"


def hand_out(exercise: Exercise, file: str | None) -> str:
    """Write the template of `exercise` to `file`, and return what to do next.

    `file` is a path, by default exercises/NAME.py. Raises CannotHandOut, before anything is
    written, when Python could not import it from there, or when it exists already.
    """
    path = Path(file or f"exercises/{exercise.name}.py")
    module = importable_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as opened:
            opened.write(exercise.template.read_text(encoding="utf-8"))
    except FileExistsError as error:
        raise CannotHandOut(
            f"{error.filename} exists already, and is left as it is: "
            "name another file, or remove it."
        ) from error
    except OSError as error:
        raise CannotHandOut(f"{path} cannot be written: {error.strerror}.") from error
    check = f"    {this_program()} race check"
    return "\n".join(
        [
            f"{path} is yours now. {exercise.task}",
            "Have it judged as often as you like:",
            *(f"{check} {judge} {module}:{exercise.function}" for judge in exercise.judges),
        ]
    )


def importable_name(path: Path) -> str:
    """Return the name that Python imports the file at `path` by; raise CannotHandOut."""
    wanted = path.resolve()
    for folder in map(Path, sys.path):
        if wanted.suffix == ".py" and wanted.is_relative_to(folder.resolve()):
            parts = wanted.relative_to(folder.resolve()).with_suffix("").parts
            if all(part.isidentifier() and not iskeyword(part) for part in parts):
                return ".".join(parts)
    raise CannotHandOut(
        f"Python could not import {path}: name a file below the folder of manage.py whose path is "
        "made of letters, digits and '_', for example exercises/mine.py"
    )


def this_program() -> str:
    """Return how this program was called, up to its first argument, for a shell."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return shlex.join([os.fspath(python), sys.argv[0]])
