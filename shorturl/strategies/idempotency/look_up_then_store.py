from collections.abc import Callable
from typing import Any

from shorturl.models import IdempotencyRecord

VERDICT = "wrong"
SHOWS = "look the key up, work, store the answer"


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> IdempotencyRecord:
    """Look the key up, do the work when it is unknown, and store the answer.

    SQL:
        SELECT … FROM shorturl_idempotencyrecord WHERE … LIMIT 1
        … the work's own
        INSERT INTO shorturl_idempotencyrecord …

    What goes wrong: a client repeats a request because no answer arrived, often while the first
    request is still in progress. Both look the key up, neither finds an answer, and the work is
    done twice. It is also done twice when the process is killed between the work and the INSERT.

    What it costs: one statement when there is an answer, two and the work when there is none.
    """
    record = IdempotencyRecord.objects.filter(caller=caller, key=key).first()
    return record or IdempotencyRecord.objects.create(
        caller=caller, key=key, fingerprint=fingerprint, **work()
    )
