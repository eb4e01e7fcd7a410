"""Files as other programs and people write them: what import_links reads, and what it names."""

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from shorturl.models import ShortUrl
from shorturl.tests.transfer.test_link_files import KUTT_LINK, transferred

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = "key,target_url,title\n"
TARGET = "https://example.com/"


def imported(path: Path, *options: str) -> tuple[list[str], list[str]]:
    """Return the keys that were imported, and the lines that were written to standard error."""
    _, said, errors = transferred("import_links", path, *options)
    keys = sorted(ShortUrl.objects.values_list("key", flat=True))
    assert said == "" or said.startswith(f"{len(keys)} links imported")
    return keys, errors.splitlines()[: -1 if said else None]


YOURLS = "keyword,url,title,timestamp,ip,clicks\n"
A, B, C = (f"{key},{TARGET}{key},{key}\n" for key in "abc")
NOT_CLOSED = "A quote that opens here is not closed."
TEXT_FOLLOWS = "Text follows a quote that ends a field: write a quote within a field twice"


@pytest.mark.parametrize(
    ("text", "keys", "errors"),
    [
        # As PHP and MySQL's INTO OUTFILE write a quote.
        (
            f'{YOURLS}"a","{TARGET}","one","2023-05-06 05:08:09","192.0.2.1","1"\n'
            f'"b","{TARGET}","say \\"hi\\" now","2023-05-06 05:08:09","192.0.2.1","2"\n'
            f'"c","{TARGET}","three","2023-05-06 05:08:09","192.0.2.1","3"\n',
            "ac",
            [f"Line 3: {TEXT_FOLLOWS}"],
        ),
        (f'{COLUMNS}{A}b,{TARGET},"never closed\n{C}', "ac", [f"Line 3: {NOT_CLOSED}"]),
        (
            f'{COLUMNS}{A}b,{TARGET},"\n{C}d,{TARGET},"e\n',
            "ac",
            [f"Line 3: {TEXT_FOLLOWS}", f"Line 5: {NOT_CLOSED}"],
        ),
        (f'{COLUMNS}{A}b,{TARGET},"two\nlines"\nc,{TARGET}\n', "ab", ["Line 5: The row has more"]),
        (
            f"{COLUMNS}{A}b,{TARGET},{'x' * 131_073}\n{C}",
            "ac",
            ["Line 3: A field has more than 131,072 characters."],
        ),
        (f"{COLUMNS}{A}{C}".replace("\n", "\r"), "ac", []),
        (f"{COLUMNS}{A}{C}".replace("\n", "\r\n"), "ac", []),
        (f"{COLUMNS}{A}\n{C}".replace(",", ";"), "ac", []),
        (f'{COLUMNS}"a";"{TARGET}";"x"\n'.replace(",", ";"), "a", []),
        (f"{COLUMNS}{A}{C}".replace(",", "\t"), "ac", []),
        (f"key,target_url,,\na,{TARGET},,\n,,,\nb,{TARGET}\nc,{TARGET},\n", "abc", []),
        (f"key,,target_url\na,,{TARGET}\nb,x,{TARGET}\n", "a", ["Line 3: The row has more"]),
    ],
)
def test_csv(text: str, keys: str, errors: list[str], tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_bytes(text.encode())
    found, said = imported(path)
    assert found == [*keys]
    assert len(said) == len(errors)
    for each, expected in zip(said, errors, strict=True):
        assert each.startswith(expected)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"{COLUMNS}{A}".encode("utf-16"), "Line 1 is not UTF-8, and looks like UTF-16: "),
        (f"{COLUMNS}{A}".encode("utf-16-be"), "Line 1 is not UTF-8, and looks like UTF-16: "),
        (f"{COLUMNS}{A}".encode("utf-32"), "Line 1 is not UTF-8, and looks like UTF-32: "),
        (
            f"{COLUMNS}{A}b,{TARGET},Café Größe\n".encode("latin-1"),
            "Line 3 is not UTF-8, and looks like ISO-8859-1: "
            "convert the file with `iconv -f ISO-8859-1 -t UTF-8`. 0 links imported",
        ),
        (
            f"{COLUMNS}b,{TARGET},“5 €”\n".encode("cp1252"),
            "Line 2 is not UTF-8, and looks like WINDOWS",
        ),
        (f"{COLUMNS}b,{TARGET},Привет\n".encode("cp1251"), "Line 2 is not UTF-8: convert"),
    ],
)
def test_another_encoding_is_named_and_nothing_imported(
    content: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "links.csv"
    path.write_bytes(content)
    found, (said,) = imported(path)
    assert found == []
    assert says in said


@pytest.mark.parametrize(
    "values",
    [
        [{"total": 1, "data": [KUTT_LINK, {**KUTT_LINK, "address": "b"}]}],
        [[KUTT_LINK, {**KUTT_LINK, "address": "b"}]],
        [KUTT_LINK, {**KUTT_LINK, "address": "b"}],
    ],
)
def test_json_over_several_lines(values: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_text("\n".join(json.dumps(each, indent=2) for each in values))
    assert imported(path) == (["abc", "b"], [])


def test_a_list_of_one_line_for_each_link(tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_text(f"[\n{json.dumps(KUTT_LINK)}\n]\n")
    assert imported(path) == (["abc"], [])


def test_a_malformed_first_line_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "links.jsonl"
    path.write_text(f'{{"key": "a\n{json.dumps(KUTT_LINK)}\n')
    keys, (said,) = imported(path)
    assert keys == ["abc"]
    assert said.startswith("Line 1: The line is not JSON: ")


@pytest.mark.parametrize(
    ("time", "year"),
    [
        ("0000-00-00 00:00:00", None),
        ("0000-00-00", None),
        ("NULL", None),
        ("\\N", None),
        ("2023-12-31", 2023),
        ("2023-12-31T14:05:00+0200", 2023),
        ("31.12.2023 14:05", 0),
        ("12/31/2023 2:05 PM", 0),
        ("1703980800", 0),
    ],
)
def test_a_time_is_read_or_named(time: str, year: int | None, tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text(f"key,target_url,max_hits,expires_at\na,{TARGET},NULL,{time}\n")
    keys, said = imported(path)
    if year == 0:
        example = "use a date and a time, such as 2026-01-31T12:00:00Z."
        assert (keys, said) == ([], [f"Line 2: expires_at is {time!r}: {example}"])
    else:
        assert (keys, said) == (["a"], [])
        expires_at = ShortUrl.objects.get().expires_at
        assert (expires_at and expires_at.year) == year


def test_a_stream_is_read_to_its_end_before_the_first_link(tmp_path: Path) -> None:
    """Keys that are not valid here are named before any line; a pipe cannot be read twice."""
    path = tmp_path / "links.csv"
    os.mkfifo(path)
    keys = [*(f"a/{number}" for number in range(101)), "admin", "x" * 65]
    rows = [f"{key},{TARGET}" for key in [*keys, "a"]]
    text = "\n".join(["key,target_url", *rows])
    writer = Thread(target=path.write_text, args=[text])
    writer.start()
    found, said = imported(path)
    writer.join()
    assert found == ["a"]
    assert said[0].startswith(
        "103 links have keys that are not valid here, and are left out: 'a/0'"
    )
    assert said[0].endswith(", 'a/99' and 3 more.")
    assert said[1].startswith("Line 2: 'a/0' is not a valid key")
