"""Records of a file in CSV or JSON; lines that cannot be read are named, and the others read."""

import csv
import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import IO, Any

from django.core.exceptions import ValidationError

from shorturl.transfer.link_files import Record, listed, names

SEPARATORS = ",;\t|"
# What Python says of malformed CSV, in part, and what it means.
MEANINGS = {
    "unexpected end": "A quote that opens here is not closed.",
    "expected after": "Text follows a quote that ends a field: write a quote within a field "
    'twice, as in "say ""hi""".',
    "field larger": f"A field has more than {csv.field_size_limit():,} characters.",
}
# Letters of Western Europe are one or two in a row; letters of other scripts are more.
ANOTHER_SCRIPT = re.compile(rb"[\x80-\xff]{3}")
# The euro, the ellipsis, quotes and dashes, beside the letters of Latin-1.
WINDOWS_1252 = re.compile(rb"[\x80\x85\x91-\x97]")
NO_LATIN_1 = re.compile(rb"[\x80-\x9f]")
VISIBLE = re.compile(r"\S")

Found = tuple[int, Record | ValidationError]  # with the number of the line


def check_encoding(file: IO[bytes]) -> None:
    """Raise ValidationError unless the file is UTF-8; it names the encoding if that is evident."""
    file.seek(0)
    head = file.read(4)
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in head:
        raise not_utf8(1, "UTF-32" if b"\0\0" in head else "UTF-16")
    file.seek(0)
    for number, line in enumerate(file, 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(number, evident_encoding(line)) from error


def evident_encoding(line: bytes) -> str | None:
    if ANOTHER_SCRIPT.search(line):
        return None
    if not NO_LATIN_1.search(line):
        return "ISO-8859-1"
    return None if NO_LATIN_1.search(WINDOWS_1252.sub(b"", line)) else "WINDOWS-1252"


def not_utf8(line: int, encoding: str | None) -> ValidationError:
    looks = f", and looks like {encoding}" if encoding else ""
    how = f"iconv -f {encoding or 'its encoding'} -t UTF-8"
    return ValidationError(f"Line {line:,} is not UTF-8{looks}: convert the file with `{how}`.")


def csv_records(lines: Iterable[str]) -> Iterator[Found]:
    """Yield the first line and the row, or its error, for each row of a CSV file that has values.

    The separator is the one of SEPARATORS with which the columns are known. A column without a name
    must be empty. In a file of export_links the apostrophes before COMPUTED are removed.

    Raises ValidationError for unknown or repeated columns.
    """
    rest = iter(lines)
    columns, separator = header(next(rest, ""))
    for number, row in csv_rows(rest, separator, 2):
        if isinstance(row, ValidationError):
            yield number, row
            continue
        nameless = [text for name, text in zip_longest(columns, row, fillvalue="") if not name]
        if any(nameless) or (any(row) and len(row) < len(columns)):
            wrong = "The row has more or fewer fields than the first line has names."
            yield number, ValidationError(wrong)
        elif any(row):
            record = {name: text for name, text in zip(columns, row, strict=False) if name}
            if "key" in record:
                record = {name: text.removeprefix("'") for name, text in record.items()}
            yield number, record


def header(line: str) -> tuple[list[str], str]:
    """Return the columns, up to the last one with a name, and the separator of a CSV file."""
    errors = []
    for separator in SEPARATORS:
        try:
            columns = next(csv.reader([line], strict=True, delimiter=separator), [])
            while columns and not columns[-1]:
                columns.pop()
            names(filter(None, columns))
        except csv.Error as error:
            errors.append(malformed(error))
        except ValidationError as error:
            errors.append(error)
        else:
            if repeated := {name for name in columns if name and columns.count(name) > 1}:
                raise ValidationError(
                    f"Repeated columns: {listed(repeated)}. Leave one of each out."
                )
            return columns, separator
    raise errors[0]


def csv_rows(
    lines: Iterator[str], separator: str, number: int
) -> Iterator[tuple[int, list[str] | ValidationError]]:
    """Yield the number of the first line and the fields, or the error, of each row.

    After an error the next row begins in the next line, whatever a quote has swallowed.
    """
    ahead: deque[str] = deque()  # lines that were read for a malformed row

    def more() -> Iterator[str]:
        while line := ahead.popleft() if ahead else next(lines, ""):
            taken.append(line)
            yield line

    while True:
        taken: list[str] = []
        row: list[str] | ValidationError
        try:
            row = next(csv.reader(more(), strict=True, delimiter=separator), [])
        except csv.Error as error:
            row = malformed(error)
            ahead.extendleft(reversed(taken[1:]))
            del taken[1:]
        if not taken:
            return
        yield number, row
        number += len(taken)


def malformed(error: csv.Error) -> ValidationError:
    meanings = (meaning for part, meaning in MEANINGS.items() if part in str(error))
    return ValidationError(next(meanings, f"It is not CSV: {error}."))


def json_records(lines: Iterable[str]) -> Iterator[Found]:
    """Yield the line and the link, or its error, of JSON lines or of JSON over several lines.

    Each value is a link, a list of links, or an answer of Kutt's API.

    Raises ValidationError for JSON over several lines that cannot be read.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    begin = [*islice(numbered, 2)]
    if over_several_lines([line for _, line in begin]):
        for number, value in json_values([*begin, *numbered]):
            yield from links_of(number, value)
    else:
        for number, line in chain(begin, numbered):
            yield from links_in(number, line)


def over_several_lines(begin: list[str]) -> bool:
    """Return whether the first two lines are no JSON lines; one of these may be malformed."""
    if len(begin) < 2 or is_json(begin[0]):
        return False
    return begin[0].strip() == "[" or not is_json(begin[1])


def is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def json_values(lines: list[tuple[int, str]]) -> list[tuple[int, Any]]:
    """Return the values, one after another, and the lines in which they begin."""
    text = "".join(line.rstrip("\r\n") + "\n" for _, line in lines)
    decoder, position, index, values = json.JSONDecoder(), 0, 0, []
    while begins := VISIBLE.search(text, position):
        index += text.count("\n", position, begins.start())
        try:
            value, position = decoder.raw_decode(text, begins.start())
        except (ValueError, RecursionError) as error:
            wrong = getattr(error, "msg", error)
            index += text.count("\n", begins.start(), getattr(error, "pos", begins.start()))
            number, _ = lines[min(index, len(lines) - 1)]
            raise ValidationError(
                f"Line {number:,} is not JSON: {wrong}. Write a link in each line, or one list."
            ) from error
        values.append((lines[index][0], value))
        index += text.count("\n", begins.start(), position)
    return values


def links_in(number: int, line: str) -> Iterator[Found]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        yield number, ValidationError(f"The line is not JSON: {error}.")
    else:
        yield from links_of(number, value)


def links_of(number: int, value: Any) -> Iterator[Found]:
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        value = value["data"]  # a page of Kutt's API
    for each in value if isinstance(value, list) else [value]:
        wrong = "The line is not a JSON object: write {…} with a link's fields."
        yield number, each if isinstance(each, dict) else ValidationError(wrong)
