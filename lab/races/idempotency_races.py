"""The races of repeated requests: one request is sent twice, and its work must be done once."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lab.races.creating_races import links, no_links, target
from lab.races.race_definition import Race, each
from pginterleave import Outcome
from shorturl.exceptions import InFlight
from shorturl.models import IdempotencyRecord, ShortUrl
from shorturl.strategies.table import STRATEGIES, Strategy

TARGET = target(0)
REQUEST = ("somebody", "the-key", "the fingerprint")


class Killed(Exception):
    """Ends a process in the middle of its work."""


def make_a_link(process: int) -> dict[str, Any]:
    short_url = ShortUrl.objects.create(key=f"own{process}", target_url=TARGET)
    return {"status": 201, "body": short_url.key}


def send(
    strategy: Strategy,
    process: int,
    *,
    make: Callable[[int], dict[str, Any]] = make_a_link,
    killed: bool = False,
) -> object:
    """Send the request; return its second try if it is in progress or the process is `killed`.

    `make` does the work of a process. The work of a killed process raises, so atomic() rolls back,
    as PostgreSQL does when a session ends. The client gets no answer, and sends the request again.
    """

    def work() -> dict[str, Any]:
        made = make(process)
        if killed:
            raise Killed
        return made

    try:
        return strategy.function(*REQUEST, work=work)
    except (InFlight, Killed):
        return partial(send, strategy, process, make=make)


def send_and_be_killed_first(strategy: Strategy, process: int, **options: Any) -> object:
    return send(strategy, process, killed=process == 1, **options)


def no_links_and_no_answers(strategy: Strategy) -> None:
    no_links(strategy)
    IdempotencyRecord.objects.all().delete()


def worked_once(outcomes: list[Outcome]) -> str:
    """Compare the links with the answer that each process gets, at its second try if it has one."""
    for process, outcome in enumerate(outcomes, 1):
        told = outcome.returned
        made = list(ShortUrl.objects.order_by("id").values_list("key", flat=True))
        if len(made) != 1:
            return f"the work was done {len(made)} times: {made}"
        if callable(told):
            return (
                f"process {process} is told at its second try, too, that the request is in progress"
            )
        body = getattr(told, "body", told)
        if body != made[0]:
            return f"process {process} is answered {body!r}, and the link is {made[0]}"
    return ""


def links_and_answers() -> str:
    kept = IdempotencyRecord.objects.values_list("status", flat=True)
    answers = ", ".join(str(status) if status else "in progress" for status in kept)
    return f"{links()}; {answers or 'no answer'}"


_race = partial(
    Race,
    operation="idempotency",
    strategies=STRATEGIES["idempotency"],
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
        situation="Every process sends the same request with the same Idempotency-Key.",
        must_hold="The work is done once. All get its answer, or are told that it is in progress.",
        story=(
            "A program creates a link, gets no answer for a while, and sends the request again. "
            "Nothing was lost: the first request is only slow, and now both are in progress. The "
            "key says that they are the same request, and the link must be created once."
        ),
        counts=(2, 3),
        processes=each(send),
    ),
    _race(
        name="killed_before_the_answer",
        situation="The first process is killed after the work; the others send the same request.",
        must_hold="The client that repeats the request gets the answer, and the work is done once.",
        story=(
            "The process that does the work is killed before it answers. The client cannot know "
            "whether the work was done, and sends the request again with the same key. Either "
            "nothing is left of the work, or its answer is stored."
        ),
        counts=(2, 3),
        processes=each(send_and_be_killed_first),
    ),
)
