"""A wrong solution is refused with its own sentence, and a right one is not refused."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lab.exercises.judging import Exercise

NAMES = ("resolve", "create", "reuse", "quota", "deliver")
SOLUTIONS = {name: import_module(f"lab.exercises.tests.solutions.{name}") for name in NAMES}
RIGHT = [(name, each) for name, module in SOLUTIONS.items() for each in module.RIGHT]
WRONG = [(name, *pair) for name, module in SOLUTIONS.items() for pair in module.WRONG.items()]


def named(value: object) -> str:
    return str(getattr(value, "__name__", "")) or str(value)[:20]


def refusals(name: str, solution: Any, interleave: Any) -> Iterator[str]:
    """Test a solution of an exercise, or the given function, and yield the failures' messages."""
    module = import_module(f"lab.exercises.{name}")
    (judged,) = (
        each for each in vars(module).values() if inspect.isclass(each) and issubclass(each, Exercise)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, judged.name, solution or getattr(module, judged.name))
        for test in [each for key, each in inspect.getmembers(judged) if key.startswith("test_")]:
            marks = [mark.args for mark in getattr(test, "pytestmark", ())]
            for case in [{key: one} for key, values in marks for one in values] or [{}]:
                with suppress(pytest.skip.Exception):
                    try:
                        test(judged(), interleave, **case)
                    except pytest.fail.Exception as failure:
                        yield f"{test.__name__}: {failure}"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution", "sentence"), WRONG, ids=named)
def test_a_wrong_one_is_refused(name: str, solution: Any, sentence: str, interleave: Any) -> None:
    said = []
    for refusal in refusals(name, solution, interleave):
        said.append(refusal)
        if sentence in refusal:
            return
    pytest.fail("\n\n".join(said) or "It is not refused.", pytrace=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution"), RIGHT, ids=named)
def test_a_right_one_is_accepted(name: str, solution: Any, interleave: Any) -> None:
    assert list(refusals(name, solution, interleave)) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_the_given_function_is_refused(name: str, interleave: Any) -> None:
    assert next(refusals(name, None, interleave))
