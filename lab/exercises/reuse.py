"""Write a correct `reuse`: `pytest lab/exercises/reuse.py` tests it.

`reuse` returns the owner's oldest live link to the target, and False. Without such a link it
returns the link that `create()` makes, and True. No unique constraint can help, because other code
may create several links to one target.

The function below looks for a link and then creates one. Which other process has looked, too?
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from lab.exercises import judging as judge
from pginterleave import Outcome
from shorturl.models import ShortUrl

Reused = tuple[ShortUrl, bool]


def reuse(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) -> Reused:
    found = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    oldest = found.order_by("id").first()
    return (oldest, False) if oldest else (create(), True)


# The tests. Do not change anything below.

WANTED = judge.TARGET.format("wanted")


def asks(process: int, owner_id: int | None = None, target: str = WANTED) -> Any:
    """Return a process that asks for a link to the target; a new one has the key `own1` etc."""
    made = partial(
        ShortUrl.objects.create, key=f"own{process}", target_url=target, owner_id=owner_id
    )
    return lambda: reuse(target, owner_id=owner_id, create=made)


def an_owner() -> int:
    user, _ = User.objects.get_or_create(username="somebody")
    return int(user.pk)


def to_the_target(*given: dict[str, Any]) -> Any:
    """Return a set-up with these links to the target, and with links to other targets."""

    def setup() -> None:
        for number, fields in enumerate(given):
            ShortUrl.objects.create(key=f"there{number}", target_url=WANTED, **fields)
        judge.links()()

    return setup


def told(outcome: Outcome, process: int) -> tuple[str, bool] | str:
    match outcome.returned:
        case (ShortUrl() as link, bool() as created):
            return link.key, created
        case other:
            return f"process {process} gets {other!r}, expected a ShortUrl and whether it is new"


def all_have_one(outcomes: list[Outcome], owner_id: int | None = None) -> str:
    """Check that all processes have the same new link, and that one of them is told it is new."""
    answers = [told(each, process) for process, each in enumerate(outcomes, 1)]
    wrong = [each for each in answers if isinstance(each, str)]
    if wrong:
        return wrong[0]
    new = [process for process, each in enumerate(answers, 1) if each[1] is True]
    if len(new) != 1:
        return f"processes {new} are told that the link is new, expected one process"
    keys = {each[0] for each in answers}
    if len(keys) > 1:
        return f"the processes get the links {sorted(keys)}, expected one link"
    fields = {"target_url": WANTED, "hits": 0, "owner_id": owner_id}
    rest = dict.fromkeys(("max_hits", "expires_at", "deleted_at"))
    return judge.changed(**{keys.pop(): {**fields, **rest}})


def has(key: str) -> Any:
    """Return the invariant that one process gets this link, which is not new."""

    def invariant(outcomes: list[Outcome]) -> str:
        answer = told(outcomes[0], 1)
        wrong = f"{answer} is returned, expected {(key, False)}"
        return judge.changed() if answer == (key, False) else wrong

    return invariant


def test_there_is_no_link(interleave: Any) -> None:
    interleave(asks(1), invariant=all_have_one)


def test_one_asks_twice(interleave: Any) -> None:
    twice = lambda: [asks(1)(), asks(2)()]  # noqa: E731
    both = lambda outcomes: all_have_one([Outcome(each) for each in outcomes[0].returned])  # noqa: E731
    interleave(twice, invariant=both)


def test_the_oldest_of_two_is_reused(interleave: Any) -> None:
    interleave(asks(1), setup=to_the_target({}, {}), invariant=has("there0"))


@pytest.mark.parametrize("ended", judge.NOWHERE)
def test_a_link_that_leads_nowhere_is_not_reused(interleave: Any, ended: str) -> None:
    setup = to_the_target(judge.NOWHERE[ended])
    interleave(asks(1), setup=setup, invariant=all_have_one)


def test_an_owned_link_is_not_reused_without_an_owner(interleave: Any) -> None:
    owner = an_owner()
    setup = to_the_target({"owner_id": owner})
    interleave(asks(1), setup=setup, invariant=all_have_one)
    interleave(asks(1, owner), setup=setup, invariant=has("there0"))


def test_a_link_without_an_owner_is_not_reused_for_one(interleave: Any) -> None:
    owner, setup = an_owner(), to_the_target({})
    own = partial(all_have_one, owner_id=owner)
    interleave(asks(1, owner), setup=setup, invariant=own)
    interleave(asks(1), setup=setup, invariant=has("there0"))


def test_two_ask_at_once(interleave: Any) -> None:
    interleave(asks(1), asks(2), invariant=all_have_one)


def test_two_ask_at_once_for_one_owner(interleave: Any) -> None:
    owner = an_owner()
    own = partial(all_have_one, owner_id=owner)
    interleave(asks(1, owner), asks(2, owner), invariant=own)


def test_two_ask_for_a_deleted_link(interleave: Any) -> None:
    """A solution may keep a record of earlier links: exactly one new link is created still."""

    def setup() -> None:
        asks(0)()
        ShortUrl.objects.all().delete()
        judge.links()()

    interleave(asks(1), asks(2), setup=setup, invariant=all_have_one)


def test_three_ask_at_once(interleave: Any) -> None:
    interleave(asks(1), asks(2), asks(3), invariant=all_have_one)


def test_two_ask_in_transactions_of_their_callers(interleave: Any) -> None:
    calls = [judge.in_a_transaction(asks(each)) for each in (1, 2)]
    interleave(*calls, invariant=all_have_one)


def test_the_callers_transaction_is_rolled_back(interleave: Any) -> None:
    interleave(judge.rolls_back(asks(1)), invariant=judge.undone())


def test_an_error_of_create_is_raised(interleave: Any) -> None:
    """The next call gets a link."""

    def run() -> Any:
        try:
            reuse(WANTED, owner_id=None, create=fails)
        except ShortUrl.KeyTaken:
            return asks(1)()
        return "no error, though the create failed"

    def fails() -> ShortUrl:
        raise ShortUrl.KeyTaken("taken")

    interleave(run, invariant=all_have_one)


def test_an_error_of_the_database_is_raised(interleave: Any) -> None:
    judge.errors_are_raised(interleave, asks(1), meant=ShortUrl.DoesNotExist)


def test_plain_threads_ask_at_once(interleave: Any) -> None:
    """Without the explorer."""
    interleave(asks(1), invariant=all_have_one)
    owns = iter(range(10_000))
    answers = judge.in_threads(
        lambda number: asks(next(owns), target=judge.TARGET.format(number))()
    )
    if errors := [each for each in answers if isinstance(each, Exception)]:
        judge.refuse(f"Threads ask for the same links, and one gets {errors[0]!r}.")
    made = ShortUrl.objects.filter(key__startswith="own").count()
    if made != 20:
        judge.refuse(f"Threads have asked for links to 20 targets, and {made} were created.")
