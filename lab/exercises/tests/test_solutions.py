"""A wrong solution of an exercise is refused with its own sentence, and a right one is accepted."""

from importlib import import_module
from typing import Any

import pytest

from lab.exercises.tests import solutions
from pginterleave.pytest_plugin import Interleave

FUNCTIONS = {"quota": "spend"}  # the others have the name of their exercise


def list_refusals(name: str, solution: Any, interleave: Interleave) -> list[str]:
    """Run the tests of an exercise with a solution; return the messages of those that fail.

    The solution None is the function in the exercise.
    """
    tests = import_module(f"lab.exercises.tests.{name}")
    refusals = []
    with pytest.MonkeyPatch.context() as patch:
        if solution:
            patch.setattr(f"lab.exercises.{name}.{FUNCTIONS.get(name, name)}", solution)
        for test in (tests.test_calls_one_after_another, tests.test_calls_at_once):
            try:
                test(interleave)
            except pytest.fail.Exception as failure:
                refusals.append(str(failure))
    return refusals


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution", "sentence"), solutions.WRONG)
def test_wrong_solutions_are_refused(
    name: str, solution: Any, sentence: str, interleave: Interleave
) -> None:
    interleave.shell = ""  # a refusal would have the test's name, and so the sentence
    assert sentence in "\n\n".join(list_refusals(name, solution, interleave))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution"), solutions.RIGHT)
def test_right_solutions_are_accepted(name: str, solution: Any, interleave: Interleave) -> None:
    assert list_refusals(name, solution, interleave) == []
