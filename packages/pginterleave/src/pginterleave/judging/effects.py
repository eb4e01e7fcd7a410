"""What processes do outside of the database: what is compared of it, and what is not."""

import sys
from collections.abc import Callable
from typing import Any

from pginterleave.judging.values import Value, plain_value

Also = Callable[[], object]
RECIPIENTS = "the list of the mails' recipients"


class Effects:
    """Compares what a test names, and to whom Django has sent mails in the test."""

    def __init__(self, also: Also | None) -> None:
        self.also = also
        self.calls: dict[str, None] = {}  # descriptions of calls whose effect is not compared
        self.has_mails = False
        self._before: Any = None
        self._mails = 0

    def begin(self) -> None:
        self._before = _copied(self.also()) if self.also else None
        self._mails = len(_mails())

    def values(self) -> dict[str, Value]:
        """Return what has been added since `begin`, by name."""
        mails = _mails()[self._mails :]
        self.has_mails = self.has_mails or bool(mails)
        recipients = "; ".join(sorted(", ".join(mail.recipients()) for mail in mails))
        named: dict[str, object] = {RECIPIENTS: recipients}
        if self.also:
            named["also"] = _added(self._before, _copied(self.also()))
        return {name: plain_value(value) for name, value in named.items()}

    def limits(self) -> list[str]:
        calls = [] if self.also else [f"{each}: compare it with also=" for each in self.calls]
        return ["the text of the mails that a process sends"] * self.has_mails + calls


def _mails() -> list[Any]:
    """Return the mails that Django's tests have kept."""
    return [*getattr(sys.modules.get("django.core.mail"), "outbox", ())]


def _copied(value: object) -> object:
    """Return a copy of a list, which the processes may append to."""
    return [*value] if isinstance(value, (list, tuple)) else value


def _added(before: Any, after: Any) -> object:
    """Return the difference of two numbers, or what a list has more; otherwise the second value."""
    numbers = (int, float)
    if isinstance(before, numbers) and isinstance(after, numbers) and not isinstance(after, bool):
        return after - before
    if isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before:
        return after[len(before) :]
    return after
