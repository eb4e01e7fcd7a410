"""Write a correct `create`: `pytest lab/exercises/create.py` tests it.

`create` tries the candidate keys `keys` in turn and returns the new short URL. It raises
ShortUrl.KeySpaceExhausted(keys) when all of them are taken. A deleted link keeps its key. The
caller gets every error of the database, except that a key is taken.

The function below checks a key and then inserts it. What can happen between the two?
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import transaction

from lab.exercises import judging as judge
from lab.models import Notification
from pginterleave import Outcome
from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl.objects.create(key=key, target_url=target_url)
    raise ShortUrl.KeySpaceExhausted(keys)


# The tests. Do not change anything below.

TAKEN = ["a", "b", "deleted"]  # by the set-up


def makes(process: int, *keys: str) -> Any:
    """Return a process that creates a link to its own target; by default it tries `same` first."""
    tried = keys or ("same", f"own{process}")
    return lambda: create(judge.TARGET.format(process), keys=list(tried))


def with_a_row(call: Any) -> Any:
    """Return a function that calls `call` in a transaction and then writes another row."""

    def run() -> Any:
        short_url = call()
        Notification.objects.create(text="the caller's")
        return short_url

    return judge.in_a_transaction(run)


def each_has_a_link(outcomes: list[Outcome], keys: Any = None) -> str:
    """Check that each process has a new link, with one of its keys and its target."""
    due: dict[str, dict[str, Any]] = {}
    for process, each in enumerate(outcomes, 1):
        key = getattr(each.returned, "key", "")
        if not isinstance(each.returned, ShortUrl) or key in due:
            return f"process {process} gets {each.returned!r}, expected a new link"
        if key not in (keys or ("same", f"own{process}")):
            return f"process {process} gets {key}, which is not one of its keys"
        fields = {"hits": 0, "max_hits": None, "expires_at": None, "deleted_at": None}
        due[key] = {"target_url": judge.TARGET.format(process), "owner_id": None, **fields}
        if each.returned.target_url != due[key]["target_url"]:
            return f"process {process} gets the link {key} of another process"
    return judge.changed(**due)


def and_a_row(outcomes: list[Outcome]) -> str:
    written, due = Notification.objects.count(), len(outcomes)
    return each_has_a_link(outcomes) or (
        f"the callers wrote {due} rows after their links, and {written} are stored"
        if written != due
        else ""
    )


def test_the_first_key_is_free(interleave: Any) -> None:
    first = partial(each_has_a_link, keys=["same"])
    interleave(makes(1), invariant=first)


def test_only_the_last_key_is_free(interleave: Any) -> None:
    """A deleted key is taken, too. No other link changes."""
    last = partial(each_has_a_link, keys=["free"])
    interleave(makes(1, *TAKEN, "free"), invariant=last)


def test_no_key_is_free(interleave: Any) -> None:
    exhausted = ShortUrl.KeySpaceExhausted
    for keys in (TAKEN, [TAKEN[0]]):
        interleave(makes(1, *keys), expected=exhausted, invariant=judge.no_link(exhausted))


def test_two_try_the_same_key(interleave: Any) -> None:
    interleave(makes(1), makes(2), invariant=each_has_a_link)


def test_two_try_the_same_key_twice(interleave: Any) -> None:
    twice = [makes(each, "same", "same", f"own{each}") for each in (1, 2)]
    interleave(*twice, invariant=each_has_a_link)


def test_three_try_the_same_key(interleave: Any) -> None:
    interleave(makes(1), makes(2), makes(3), invariant=each_has_a_link)


def test_two_try_the_same_key_in_transactions_of_their_callers(interleave: Any) -> None:
    """The transaction must survive a collision: each caller writes another row."""
    calls = [with_a_row(makes(each)) for each in (1, 2)]
    interleave(*calls, invariant=and_a_row)


def test_the_process_with_the_key_rolls_back(interleave: Any) -> None:
    """The other process has a link, with any of its keys."""

    def gives_up() -> None:
        with suppress(judge.Undone), transaction.atomic():
            makes(2)()
            raise judge.Undone

    first = lambda outcomes: each_has_a_link(outcomes[:1])  # noqa: E731
    interleave(makes(1), gives_up, invariant=first)


def test_the_callers_transaction_is_rolled_back(interleave: Any) -> None:
    interleave(judge.rolls_back(makes(1, "a", "own1")), invariant=judge.undone())


def test_an_error_of_the_database_is_raised(interleave: Any) -> None:
    """Another key helps only if the key is taken."""
    judge.errors_are_raised(interleave, makes(1), meant=ShortUrl.KeySpaceExhausted)


def test_plain_threads_try_the_same_keys(interleave: Any) -> None:
    """Without the explorer."""
    interleave(makes(1), invariant=each_has_a_link)
    keys = iter(range(10_000))

    def made(number: int) -> str:
        own = next(keys)
        link = create(judge.TARGET.format(own), keys=[f"same{number}", f"own{own}"])
        stored = ShortUrl.objects.filter(key=link.key).values_list("target_url", flat=True)
        return "" if [*stored] == [judge.TARGET.format(own)] else f"{link.key} leads to {[*stored]}"

    for wrong in judge.in_threads(made):
        if wrong:
            judge.refuse(f"Threads tried the same keys, and one has no link: {wrong}.")
