"""Votes, the next question and the end of a room, beside each other in every schedule."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from lab.room.models import Question, ask, end, vote
from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave

CELL = "lost_update/naive/2/read-committed"
vote_first = partial(vote, cell=CELL, taken="")
open_room = partial(ask, CELL, "", is_new=True)


def expect_one_of(*ends: list[tuple[str, Any]]) -> Callable[[Sequence[Outcome]], str]:
    """Return the invariant that the questions, each with its votes, are one of these ends."""

    def check(outcomes: Sequence[Outcome]) -> str:
        questions = list(Question.objects.values_list("taken", "votes"))
        return "" if questions in ends else f"the questions are {questions}"

    return check


def test_each_phone_has_one_vote(interleave: Interleave) -> None:
    """Processes 1 and 2 vote with the same phone, and process 3 with another one."""
    ask(CELL, "")
    right = expect_one_of([("", {"a": "1", "b": "2"})], [("", {"a": "2", "b": "2"})])
    votes = [partial(vote_first, *args) for args in (("a", "1"), ("a", "2"), ("b", "2"))]
    interleave(*votes, invariant=right)


def test_no_vote_is_for_the_question_before(interleave: Interleave) -> None:
    """Process 1 votes, and process 2 takes the step."""
    ask(CELL, "")
    step = partial(ask, CELL, "1")
    interleave(partial(vote_first, "a", "2"), step, invariant=expect_one_of([("1", {})]))


def test_a_double_click_loses_no_vote(interleave: Interleave) -> None:
    """Processes 1 and 2 take the same step, and process 3 votes for the one after it."""
    ask(CELL, "")

    def check(outcomes: Sequence[Outcome]) -> str:
        votes = {"a": "12"} if outcomes[2].returned else {}
        return expect_one_of([("1", votes)])(outcomes)

    step = partial(ask, CELL, "1")
    interleave(step, step, partial(vote, "a", "12", cell=CELL, taken="1"), invariant=check)


@pytest.mark.parametrize("beside", [open_room, partial(vote_first, "a", "1"), end])
def test_a_room_that_was_left_open_is_opened_again_in_one_step(
    interleave: Interleave, beside: Callable[[], object]
) -> None:
    """Process 1 opens it, and process 2 does so as well, votes, or ends it."""
    ask(CELL, "")
    vote_first("b", "2")
    interleave(open_room, beside)


def test_nothing_is_left_of_a_room_that_has_ended(interleave: Interleave) -> None:
    """Process 1 votes, and process 2 ends the room."""
    ask(CELL, "")
    interleave(partial(vote_first, "a", "1"), end, invariant=expect_one_of([]))
