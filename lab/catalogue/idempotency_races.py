"""The races of repeated requests: the same one is sent twice, and its work must be done once."""

from functools import partial
from typing import Any

from lab.catalogue.creating_races import links, no_links, target
from lab.catalogue.race_definition import Race, each
from pginterleave import Outcome
from shorturl.models import IdempotencyRecord, ShortUrl
from shorturl.strategies import Strategy, idempotency

TARGET = target(0)
REQUEST = ("somebody", "the-key", "the fingerprint")


class Killed(Exception):
    """Ends a process in the middle of its work."""


def make_a_link(process: int) -> dict[str, Any]:
    short_url = ShortUrl.objects.create(key=f"own{process}", target_url=TARGET)
    return {"status": 201, "body": short_url.key}


def make_a_link_and_be_killed(process: int) -> dict[str, Any]:
    make_a_link(process)
    raise Killed


def send(strategy: Strategy[Any], process: int, *, killed: bool = False) -> object:
    """Send the request; when told that it is in progress, return the second try.

    PostgreSQL undoes the transaction of a process that is `killed`, as atomic() does when the work
    raises. The client that waits for its answer sends the request again, too.
    """
    work = partial(make_a_link_and_be_killed if killed else make_a_link, process)
    try:
        return strategy.function(*REQUEST, work=work)
    except (IdempotencyRecord.InFlight, Killed):
        return partial(send, strategy, process)


def send_and_be_killed_first(strategy: Strategy[Any], process: int) -> object:
    return send(strategy, process, killed=process == 1)


def no_links_and_no_answers(strategy: Strategy[Any]) -> None:
    no_links(strategy)
    IdempotencyRecord.objects.all().delete()


def worked_once(outcomes: list[Outcome]) -> str:
    """Compare what was made with what each process is answered, at its second try if need be."""
    for process, outcome in enumerate(outcomes, 1):
        told = outcome.returned
        made = list(ShortUrl.objects.order_by("id").values_list("key", flat=True))
        if len(made) != 1:
            return f"the work was done {len(made)} times: {made}"
        if callable(told):
            return f"process {process} is told for ever that the request is in progress"
        body = getattr(told, "body", told)
        if body != made[0]:
            return f"process {process} is answered {body!r}, and the link is {made[0]}"
    return ""


def links_and_answers() -> str:
    kept = IdempotencyRecord.objects.values_list("status", flat=True)
    answers = ", ".join("in progress" if status is None else str(status) for status in kept)
    return f"{links()}; {answers or 'no answer'}"


_race = partial(
    Race,
    operation="idempotency",
    strategies=idempotency.STRATEGIES,
    signature=(
        "answer(caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]) "
        "-> IdempotencyRecord"
    ),
    setup=no_links_and_no_answers,
    invariant=worked_once,
    observe=links_and_answers,
)

RACES = (
    _race(
        name="repeated_request",
        situation="Everybody sends the same request with the same Idempotency-Key.",
        must_hold="The work is done once; all get its answer, or are told that it is in progress.",
        story=(
            "A program creates a link, hears nothing for a while, and sends the request again. "
            "Nothing was lost: the first one is only slow, and now both are at work. The key says "
            "that they are the same request, and the link must be made once."
        ),
        processes=each(send),
    ),
    _race(
        name="killed_before_the_answer",
        situation="The first process is killed after the work; the others send the same request.",
        must_hold="The client that sends it again gets the answer, and the work was done once.",
        story=(
            "The process that does the work is killed before it has answered. The client that sent "
            "the request cannot know whether it was done, and sends it again with the same key. "
            "Either nothing is left of the work, or its answer is."
        ),
        processes=each(send_and_be_killed_first),
    ),
)
