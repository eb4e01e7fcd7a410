"""A wrong solution is refused with its own sentence, and a right one is not refused."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import pytest

from lab.exercises import judging
from lab.exercises.judging import judged
from pginterleave.pytest_plugin import Interleave

EXERCISES = {
    "resolve": "resolve",
    "create": "create",
    "reuse": "reuse",
    "quota": "spend",
    "deliver": "deliver",
}
# A busy machine takes longer for a step, which must not refuse a solution.
LIMITS = {**judging.LIMITS, "step_timeout": 15.0}
SOLUTIONS = {name: import_module(f"lab.exercises.tests.solutions.{name}") for name in EXERCISES}


# Some of each exercise, as a solution takes many seconds.
RIGHT = [(name, each) for name, module in SOLUTIONS.items() for each in module.RIGHT[:1]]
WRONG = [
    (name, *pair) for name, module in SOLUTIONS.items() for pair in [*module.WRONG.items()][:2]
]


def named(value: object) -> str:
    return str(getattr(value, "__name__", "")) or type(value).__name__


@pytest.fixture
def refusals(interleave: object, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Iterator[str]]:
    """Return a function that tests a solution of an exercise and yields the failures' messages."""

    def run(name: str, solution: Any = None) -> Iterator[str]:
        exercise = import_module(f"lab.exercises.{name}")
        if solution:
            monkeypatch.setattr(exercise, EXERCISES[name], solution)
        for test in [each for key, each in vars(exercise).items() if key.startswith("test_")]:
            marks = [mark.args for mark in getattr(test, "pytestmark", ())]
            for case in [{key: one} for key, values in marks for one in values] or [{}]:
                with suppress(pytest.skip.Exception), Interleave(shell="pytest", **LIMITS) as own:
                    try:
                        test(partial(judged, own), **case)
                    except pytest.fail.Exception as failure:
                        yield str(failure)

    return run


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution", "sentence"), WRONG, ids=named)
def test_a_wrong_one_is_refused(
    name: str, solution: Any, sentence: str, refusals: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MANY_SECONDS", 30.0)  # some fail in few schedules of three
    said = []
    for refusal in refusals(name, solution):
        said.append(refusal)
        if sentence in refusal:
            return
    pytest.fail("\n\n".join(said) or "It is not refused.", pytrace=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "solution"), RIGHT, ids=named)
def test_a_right_one_is_accepted(name: str, solution: Any, refusals: Any) -> None:
    assert list(refusals(name, solution)) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXERCISES)
def test_the_given_function_is_refused(name: str, refusals: Any) -> None:
    assert next(refusals(name))
