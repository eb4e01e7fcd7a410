"""The races of repeated requests: one request is sent twice, and its work must be done once."""

from functools import partial
from typing import Any

from lab.races.creating import delete_all_links, describe_links, target_of
from lab.races.race import AGAIN, Race
from pginterleave import Outcome
from shorturl.exceptions import InFlight
from shorturl.models import IdempotencyRecord, ShortUrl
from shorturl.strategies.table import STRATEGIES, Strategy

TARGET = target_of(0)
REQUEST = ("somebody", "the-key", "the fingerprint")


class Killed(Exception):
    """Ends a process in the middle of its work."""


def send_request(strategy: Strategy, process: int, *, killed: bool = False) -> object:
    """Send the request, and return its answer, or AGAIN if the client has to send it again.

    The client does so when the request is in progress, and when the process is `killed`. A killed
    process raises in its work, so atomic() rolls back, as PostgreSQL does when a session ends.
    """

    def work() -> dict[str, Any]:
        link = ShortUrl.objects.create(key=f"own{process}", target_url=TARGET)
        if killed:
            raise Killed
        return {"status": 201, "body": link.key}

    try:
        return strategy.function(*REQUEST, work=work)
    except (InFlight, Killed):
        return AGAIN


def send_request_with_process_1_killed(strategy: Strategy, process: int) -> object:
    """Send the request; process 1 is killed in the middle of its work."""
    return send_request(strategy, process, killed=process == 1)


def delete_links_and_answers(strategy: Strategy) -> None:
    delete_all_links(strategy)
    IdempotencyRecord.objects.all().delete()


def check_created_once(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if there is one link, and each process is answered with its key."""
    created = list(ShortUrl.objects.order_by("id").values_list("key", flat=True))
    if len(created) != 1:
        return f"the work was done {len(created)} times: {created}"
    for process, outcome in enumerate(outcomes, 1):
        if outcome.returned is AGAIN:
            return (
                f"process {process} is told at its second try, too, that the request is in progress"
            )
        key = outcome.returned.body
        if key != created[0]:
            return f"process {process} is answered {key!r}, and the link is {created[0]}"
    return ""


def describe_links_and_answers() -> str:
    statuses = IdempotencyRecord.objects.values_list("status", flat=True)
    answers = ", ".join(str(status) if status else "in progress" for status in statuses)
    return f"{describe_links()}; {answers or 'no answer'}"


_race = partial(
    Race,
    operation="idempotency",
    process_counts=(2, 3),
    strategies=STRATEGIES["idempotency"],
    setup=delete_links_and_answers,
    second_try=send_request,
    check=check_created_once,
    rows=describe_links_and_answers,
)

RACES = (
    _race(
        name="repeated_request",
        situation="Every process sends the same request with the same Idempotency-Key.",
        invariant="The work is done once. All get its answer, or are told that it is in progress.",
        story=(
            "A program creates a link, gets no answer for a while, and sends the request again. "
            "Nothing was lost: the first request is only slow, and now both are in progress. The "
            "key says that they are the same request, and the link must be created once."
        ),
        process=send_request,
    ),
    _race(
        name="killed_before_the_answer",
        situation="The first process is killed after the work; the others send the same request.",
        invariant="The client that repeats the request gets the answer, and the work is done once.",
        story=(
            "The process that does the work is killed before it answers. The client cannot know "
            "whether the work was done, and sends the request again with the same key. Either "
            "nothing is left of the work, or its answer is stored."
        ),
        process=send_request_with_process_1_killed,
    ),
)
