"""A result as isolationtester writes it, which is libpq's PQprint with aligned columns."""

import re
from typing import Any

NUMBER = re.compile(rb"[0-9.eE -]*[0-9]")  # what PQprint takes for one


def result_table(result: Any) -> str:
    """Return the table of a result, with its number of rows; nothing if it has no columns."""
    columns = range(result.nfields)
    if not columns:
        return ""
    names = [result.fname(column) or b"" for column in columns]
    rows = [
        [result.get_value(row, column) or b"" for column in columns]
        for row in range(result.ntuples)
    ]
    widths = [max(map(len, each)) for each in zip(names, *rows, strict=True)]  # in bytes
    right = [
        all(map(_is_number, filter(None, (row[column] for row in rows)))) for column in columns
    ]

    def line(values: list[bytes]) -> bytes:
        cells = zip(values, widths, right, strict=True)
        return b"|".join(
            value.rjust(width) if to_the_right else value.ljust(width)
            for value, width, to_the_right in cells
        )

    rule = b"+".join(b"-" * width for width in widths)
    count = f"({result.ntuples} row{'' if result.ntuples == 1 else 's'})".encode()
    lines = [line(names), rule, *map(line, rows), count, b"", b""]
    return b"\n".join(lines).decode(errors="replace")


def _is_number(value: bytes) -> bool:
    return bool(NUMBER.fullmatch(value)) and value[:1] not in b"eE"
