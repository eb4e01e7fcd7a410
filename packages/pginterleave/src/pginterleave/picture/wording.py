"""A step in a few words: `read hits = 0`, `write hits = 1`, `lock a`, `commit`."""

import re
from collections import defaultdict
from typing import Any, NamedTuple

Step = dict[str, Any]

WRITES = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE"))
MAX_VALUE_LENGTH = 24  # characters of a value
PLAIN = {
    "RELEASE": "release savepoint",
    "ROLLBACK TO": "rollback to savepoint",
    "SET": "set isolation level",
}


class Words(NamedTuple):
    """What a step sends and what it returns; a waiting step has returned nothing yet."""

    sent: str
    returned: str
    error: str

    def __str__(self) -> str:
        joint = ", " if self.sent.startswith("lock") else " "
        return joint.join(filter(None, (self.sent, self.returned or self.error)))


def word_steps(steps: list[Step], whole: list[Step] | None = None) -> list[Words]:
    """Return the words for each step, with the columns that have several values in the schedule.

    `whole` is the whole schedule if `steps` are only its first steps.
    """
    shown = whole or steps
    names = Names(shown)
    change = find_changing_columns(shown, names)
    rows = defaultdict(set)  # the names, by table
    for step in shown:
        rows[step["table"]].add(names.of(step))
    phrases = []
    for step in steps:
        changed = change[step["table"]]
        sent = _word_statement(step, names, changed, len(rows[step["table"]]) > 1)
        waits = step["until"] > len(steps)
        returned = "" if step["error"] or waits else _word_result(step, names, changed)
        phrases.append(Words(sent, returned, step["error"]))
    return phrases


class Names:
    """The names of the rows: a row's key, if any step shows the key and the id of the row."""

    def __init__(self, steps: list[Step]) -> None:
        self._keys: dict[tuple[str, str | None], str] = {}
        for step in steps:
            for row in [*step["read"], {**step["condition"], **step["wrote"]}]:
                key = _find_key(row)
                if key and "id" in row:
                    self._keys[step["table"], row["id"]] = key

    def of(self, step: Step) -> str:
        """Return the name of a step's row: its key, or a value of it, or the table."""
        row = step["read"][0] if len(step["read"]) == 1 else {}
        known = {**row, **step["wrote"], **step["condition"]}
        key = self._keys.get((step["table"], known.get("id"))) or _find_key(known)
        given = {**step["condition"], **step["wrote"]}
        value = next(filter(None, given.values()), None)
        return shorten(key or value or step["table"])


def _find_key(row: dict[str, str | None]) -> str | None:
    """Return the name of a row: the key of a link or a visit, the period of a quota."""
    return row.get("key") or row.get("period")


def shorten(value: str | None) -> str:
    """Return a value as short text for a reader."""
    if value is None:
        return "NULL"
    text = re.sub(r"^https?://(.*?)/?$", r"\1", value)
    text = re.sub(r"^(\d{4}-\d\d-\d\d) \d\d:.*", r"\1", text)
    text = re.sub(r"^(\d+ days?), 0:00:00$", r"\1", text)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"


def find_changing_columns(steps: list[Step], names: Names) -> dict[str, set[str]]:
    """Return, by table, the columns that have several values for one row in the schedule."""
    values: dict[tuple[str, str, str], set[str | None]] = defaultdict(set)
    columns: dict[str, set[str]] = defaultdict(set)
    for step in steps:
        rows = step["read"] if step["kind"] == "SELECT" else []
        for row in [*rows, step["wrote"]]:
            name = names.of({**step, "read": [row]})
            for column, value in row.items():
                values[step["table"], name, column].add(value)
        columns[step["table"]] |= set(step["computed"])
    for (table, _, column), several in values.items():
        if len(several) > 1:
            columns[table].add(column)
    return columns


def _word_statement(step: Step, names: Names, changing: set[str], several: bool) -> str:
    """Return what a step sends; `several` says that the steps are about several rows of a table."""
    kind = step["kind"]
    name = names.of(step)
    if kind == "SELECT":
        if step["lock"] == "advisory":
            return f"lock {shorten(step['lock_name'])}"
        if step["lock"]:
            return f"lock {name}"
        if not step["table"]:
            return "read"
        shows_value = any(_is_shown(step, column, changing) for column in _get_first_row(step))
        is_clear = shows_value and (not several or len(step["read"]) > 1)
        return "read" if is_clear else f"read {name}:"
    if kind == "LOCK":
        return "lock table"
    if kind == "INSERT":
        columns = [(c, v) for c, v in step["wrote"].items() if c != "id" and v is not None]
        return f"insert {_write_columns(dict(columns[:1]))}".strip()
    if kind == "UPDATE":
        changed = {c: v for c, v in step["wrote"].items() if c in changing}
        wrote = changed or ({} if step["computed"] else step["wrote"])
        now = {c: "now" if "TIMESTAMP" in text else text for c, text in step["computed"].items()}
        which = f"{name}: " if several else ""
        return f"write {which}{_write_columns({**wrote, **now})}"
    if kind == "DELETE":
        return f"delete {name}"
    return PLAIN.get(kind) or str(kind).lower()


def _write_rows_read(step: Step, names: Names, changing: set[str]) -> str:
    """Return what a SELECT has read, with the names of the rows if there are several."""
    texts = []
    for row in step["read"]:
        # Django gives a computed value, such as a count, a name with underscores.
        shown = {c.lstrip("_"): v for c, v in row.items() if _is_shown(step, c, changing)}
        name = f"{names.of({**step, 'read': [row]})}: " if len(step["read"]) > 1 else ""
        if shown:
            texts.append(f"{name}{_write_columns(shown)}")
    return ", ".join(texts)


def _is_shown(step: Step, column: str, changing: set[str]) -> bool:
    """Return whether to show the value of a column: it changes, or the SELECT computes it."""
    return column in changing or f") AS {column}" in step["sql"]


def _word_result(step: Step, names: Names, changing: set[str]) -> str:
    """Return what a step has returned, as far as a reader needs it; or ""."""
    row = {c: v for c, v in _get_first_row(step).items() if c in changing}
    if step["kind"] == "SELECT" and step["lock"] != "advisory":
        if not step["read"]:
            return "no row"
        if not step["table"]:
            return _write_columns(_get_first_row(step))
        read = _write_rows_read(step, names, changing)
        if not read:
            return "found"
        return f"read {read}" if step["lock"] else read
    if step["kind"] in WRITES and step["rows"] == 0:
        return "no row"
    if step["kind"] == "UPDATE" and row:
        return f"→ {_write_columns(row)}"
    return ""


def _get_first_row(step: Step) -> dict[str, str | None]:
    return step["read"][0] if step["read"] else {}


def _write_columns(row: dict[str, str | None]) -> str:
    return ", ".join(f"{column} = {shorten(value)}" for column, value in row.items())
