from collections.abc import Callable
from typing import Any

from shorturl.models import KeptAnswer


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> KeptAnswer:
    """Look the key up, do the work when it is unknown, and store the answer.

    What it does: returns the answer that is kept for the caller's key, or does the work and keeps
    what it returns.

    SQL:
        SELECT … FROM shorturl_keptanswer WHERE … LIMIT 1
        … the work's own
        INSERT INTO shorturl_keptanswer …

    What goes wrong: the request is repeated because the first answer did not arrive, often while
    the first one is still at work. Both look, neither finds an answer, and the work is done twice.
    It is also done twice when the process is killed after the work and before it has stored the
    answer, which is what the key was there for.

    What it costs: one statement when the answer is there, two and the work when not.

    When to use it: never.
    """
    kept = KeptAnswer.objects.filter(caller=caller, key=key).first()
    return kept or KeptAnswer.objects.create(
        caller=caller, key=key, fingerprint=fingerprint, **work()
    )
