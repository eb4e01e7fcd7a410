"""A request or call that a test sends, and which can be sent again."""

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pginterleave.processes.race_coverage import find_written_tables
from pginterleave.sql.reader import remove_constants
from pginterleave.sql.statements import CONTROL, find_kind, find_read_tables
from pginterleave.steps import ENDS_OF_BLOCKS

NO_STATEMENTS = CONTROL.union(ENDS_OF_BLOCKS) - {"SET"}
# Nearly every request writes these. Their rows are not compared, and whoever writes nothing else is
# not explored.
IGNORED_TABLES = frozenset(("django_session", "django_admin_log"))


@dataclass(frozen=True)
class Candidate:
    """A request, such as `POST shop:redeem`, or a call.

    `run` handles a copy of the request. It returns the answer, or raises what the view raises.
    """

    name: str
    run: Callable[[], object]


class Listener:
    """Is told of each candidate before it runs and while it runs; a pass of a discovery."""

    def explore(self, candidate: Candidate) -> None:
        """Explore a candidate, in the thread of the test, before the test's own request runs."""

    def note(self, candidate: Candidate) -> AbstractContextManager[list[object]]:
        """Enter while the test's own request runs; append its answer to the list."""
        return nullcontext([])


@dataclass(frozen=True)
class Traffic:
    """What a candidate has sent and answered alone; equal for what need not be explored again."""

    name: str
    answer: str
    statements: tuple[str, ...]

    @property
    def writes(self) -> frozenset[str]:
        return frozenset().union(*map(find_written_tables, self.statements)) - IGNORED_TABLES

    @property
    def tables(self) -> frozenset[str]:
        reads = frozenset().union(*map(find_read_tables, self.statements))
        return (reads | self.writes) - IGNORED_TABLES

    @property
    def saves_rows(self) -> bool:
        """Whether it writes several columns at once, and may so undo what an equal one writes."""
        return any(re.match(r"UPDATE [^=]+=[^=]+,[^=]+= ", sql) for sql in self.statements)

    def meets(self, other: "Traffic") -> bool:
        """Whether they differ, and one writes a table that the other reads or writes."""
        return self != other and bool(self.writes & other.tables or other.writes & self.tables)


def make_traffic(name: str, answer: object, statements: Iterable[str]) -> Traffic:
    """Return the traffic of a candidate, from its answer and its statements as SQL."""
    sent = [_shorten(sql) for sql in statements if find_kind(sql) not in NO_STATEMENTS]
    return Traffic(name, describe_answer(answer), tuple(sent))


def describe_answer(answer: object) -> str:
    """Return the text of an answer; of an object only its class, as its text may send queries."""
    is_plain = answer is None or isinstance(answer, (bool, int, float, str))
    return str(answer) if is_plain else type(answer).__name__


def _shorten(sql: str) -> str:
    """Return SQL without its constants, and with lists of the same length."""
    return re.sub(r"(%s, )+%s", "%s", re.sub(r"\d+", "0", remove_constants(sql)))


def write_answer(response: Any) -> str:
    """Return what is compared of a response: `302 /account/`, `503 Retry-After`."""
    refuses = response.status_code == 503 and response.headers.get("Retry-After")
    place = "Retry-After" if refuses else response.headers.get("Location", "")
    return f"{response.status_code} {place}".rstrip()


def is_refusal_on_purpose(answer: object) -> bool:
    """Whether an answer says that the same may succeed in a moment: 409, 503 with Retry-After."""
    return getattr(answer, "hidden", answer) in ("409", "503 Retry-After")


def is_success(answer: str) -> bool:
    """Whether it is no status from 400 to 599; what a function returned is a success."""
    return not re.fullmatch(r"[45]\d\d( Retry-After)?", answer)
