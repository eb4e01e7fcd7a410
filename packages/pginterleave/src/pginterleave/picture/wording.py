"""A step in a few words: `read hits = 0`, `write hits = 1`, `lock a`, `commit`."""

import re
from collections import defaultdict
from typing import Any, NamedTuple

RecordedStep = dict[str, Any]

WRITES = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE"))
MAX_VALUE_LENGTH = 24  # characters of a value
WORDS_BY_KIND = {  # of statements that name no row
    "LOCK": "lock table",
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
        separator = ", " if self.sent.startswith("lock") else " "
        return separator.join(filter(None, (self.sent, self.returned or self.error)))


def word_steps(
    steps: list[RecordedStep], all_steps: list[RecordedStep] | None = None
) -> list[Words]:
    """Return the words for each step, with the columns that have several values in the schedule.

    `all_steps` are those of the schedule if `steps` are only the first ones.
    """
    schedule = all_steps or steps
    names = Names(schedule)
    changing = find_changing_columns(schedule)
    row_names = defaultdict(set)  # by table
    for step in schedule:
        row_names[step["table"]].add(names.name_row(step))
    words = []
    for step in steps:
        columns = changing[step["table"]]
        has_several_rows = len(row_names[step["table"]]) > 1
        sent = _word_statement(step, names, columns, has_several_rows)
        waits = step["until"] > len(steps)  # it returns during a step that is not shown
        returned = "" if step["error"] or waits else _word_result(step, names, columns)
        words.append(Words(sent, returned, step["error"]))
    return words


class Names:
    """Names rows: by the row's key, if any step of the schedule shows both its key and its id.

    A row without a key has the name of the value by which a SELECT finds it, such as a slug.
    """

    def __init__(self, steps: list[RecordedStep]) -> None:
        self._keys: dict[str, dict[str | None, str]] = defaultdict(dict)  # by table and id
        for step in steps:
            for row in [*step["read"], {**step["condition"], **step["wrote"]}]:
                key = row.get("key") or row.get("period")  # the row of a quota has a period
                if key and "id" in row:
                    self._keys[step["table"]][row["id"]] = key
        for step in steps:
            value = next(filter(None, step["condition"].values()), None)
            keys = self._keys[step["table"]]
            is_single = len(step["read"]) == 1 and "id" in step["read"][0]
            if is_single and value and value not in keys.values():
                keys.setdefault(step["read"][0]["id"], value)

    def name_row(self, step: RecordedStep, row: dict[str, str | None] | None = None) -> str:
        """Return the name of a step's only row, or of `row`: a key, a value sent, or the table."""
        if row is None:
            row = step["read"][0] if len(step["read"]) == 1 else {}
        known = {**row, **step["wrote"], **step["condition"]}
        key = self._keys[step["table"]].get(known.get("id")) or known.get("key")
        sent = {**step["condition"], **step["wrote"]}
        value = next(filter(None, sent.values()), None)
        return shorten(key or known.get("period") or value or step["table"])


def shorten(value: str | None) -> str:
    """Return a value as short text: a URL without scheme, a time's date, a duration's days."""
    if value is None:
        return "NULL"
    text = re.sub(r"^https?://(.*?)/?$", r"\1", value)
    text = re.sub(r"^(\d{4}-\d\d-\d\d) \d\d:.*", r"\1", text)
    text = re.sub(r"^(\d+ days?), 0:00:00$", r"\1", text)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"


def find_changing_columns(steps: list[RecordedStep]) -> dict[str, set[str]]:
    """Return, by table, the columns that have several values for one row in the schedule."""
    names = Names(steps)
    values: dict[tuple[str, str, str], set[str | None]] = defaultdict(set)
    columns: dict[str, set[str]] = defaultdict(set)
    for step in steps:
        rows = step["read"] if step["kind"] == "SELECT" else []
        for row in [*rows, step["wrote"]]:
            name = names.name_row(step, row)
            for column, value in row.items():
                values[step["table"], name, column].add(value)
        columns[step["table"]] |= set(step["computed"])
    for (table, _, column), values_of_row in values.items():
        if len(values_of_row) > 1:
            columns[table].add(column)
    return columns


def _word_statement(
    step: RecordedStep, names: Names, changing: set[str], has_several_rows: bool
) -> str:
    """Return what a step sends, with the row's name if the schedule uses several of the table."""
    kind = step["kind"]
    name = names.name_row(step)
    if kind == "SELECT":
        return _word_select(step, name, changing, has_several_rows)
    if kind == "INSERT":
        wrote = step["wrote"].items()
        columns = [(c, value) for c, value in wrote if c != "id" and value is not None]
        first_column = dict(columns[:1])
        return f"insert {_write_columns(first_column)}".strip()
    if kind == "UPDATE":
        changed = {column: step["wrote"][column] for column in step["wrote"] if column in changing}
        wrote = changed or ({} if step["computed"] else step["wrote"])
        texts = {c: "now" if "TIMESTAMP" in text else text for c, text in step["computed"].items()}
        which = f"{name}: " if has_several_rows else ""
        return f"write {which}{_write_columns({**wrote, **texts})}"
    if kind == "DELETE":
        return f"delete {name}"
    return WORDS_BY_KIND.get(kind) or str(kind).lower()


def _word_select(step: RecordedStep, name: str, changing: set[str], has_several_rows: bool) -> str:
    """Return what a SELECT locks or reads, with the row's name if no value read is shown."""
    if step["lock"] == "advisory":
        return f"lock {shorten(step['lock_name'])}"
    if step["lock"]:
        return f"lock {name}"
    if not step["table"]:
        return "read"
    first_row = step["read"][0] if step["read"] else {}
    shows_value = any(_is_shown(step, column, changing) for column in first_row)
    # Several rows are named with their values.
    names_row = not shows_value or (has_several_rows and len(step["read"]) == 1)
    return f"read {name}:" if names_row else "read"


def _write_rows_read(step: RecordedStep, names: Names, changing: set[str]) -> str:
    """Return what a SELECT has read, with the names of the rows if there are several."""
    texts = []
    for row in step["read"]:
        # Django gives a computed value, such as a count, a name with underscores.
        shown = {c.lstrip("_"): v for c, v in row.items() if _is_shown(step, c, changing)}
        name = f"{names.name_row(step, row)}: " if len(step["read"]) > 1 else ""
        if shown:
            texts.append(f"{name}{_write_columns(shown)}")
    return ", ".join(texts)


def _is_shown(step: RecordedStep, column: str, changing: set[str]) -> bool:
    """Whether to show the value of a column: it changes, or the SELECT computes it."""
    return column in changing or f") AS {column}" in step["sql"]


def _word_result(step: RecordedStep, names: Names, changing: set[str]) -> str:
    """Return what a step has returned, or ""; of a row, the columns `changing` in the schedule."""
    first_row = step["read"][0] if step["read"] else {}
    if step["kind"] == "SELECT" and step["lock"] != "advisory":
        if not step["read"]:
            return "no row"
        if not step["table"]:
            return _write_columns(first_row)
        read = _write_rows_read(step, names, changing)
        if not read:
            return "found"
        return f"read {read}" if step["lock"] else read  # the words of a plain SELECT have "read"
    if step["kind"] in WRITES and step["rows"] == 0:
        return "no row"
    changed = {column: first_row[column] for column in first_row if column in changing}
    return f"→ {_write_columns(changed)}" if step["kind"] == "UPDATE" and changed else ""


def _write_columns(row: dict[str, str | None]) -> str:
    return ", ".join(f"{column} = {shorten(value)}" for column, value in row.items())
