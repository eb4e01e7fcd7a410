"""A wrong solution is refused with its own sentence, and a right one is not refused."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lab.exercises.judging import Exercise
from lab.exercises.tests import solutions


def refusals(name: str, solution: Any, interleave: Any) -> Iterator[str]:
    """Test a solution of an exercise, and yield the failures' messages."""
    module = import_module(f"lab.exercises.{name}")
    exercises: list[Any] = Exercise.__subclasses__()
    exercise = next(each for each in exercises if each.__module__ == module.__name__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, exercise.name, solution or getattr(module, exercise.name))
        for test in [each for key, each in inspect.getmembers(exercise) if key.startswith("test_")]:
            marks = [mark.args for mark in getattr(test, "pytestmark", ())]
            for case in [{key: one} for key, values in marks for one in values] or [{}]:
                with suppress(pytest.skip.Exception):
                    try:
                        test(exercise(), interleave, **case)
                    except pytest.fail.Exception as failure:
                        yield str(failure)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution", "sentence"), solutions.WRONG)
def test_a_wrong_one_is_refused(name: str, solution: Any, sentence: str, interleave: Any) -> None:
    said = []
    for refusal in refusals(name, solution, interleave):
        said.append(refusal)
        if sentence in refusal:
            return
    pytest.fail("\n\n".join(said) or "It is not refused.", pytrace=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution"), solutions.RIGHT)
def test_a_right_one_is_accepted(name: str, solution: Any, interleave: Any) -> None:
    assert list(refusals(name, solution, interleave)) == []
