"""What import_links refuses, and what it says; files as other programs and people write them."""

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from pytest_django import Settings

from shorturl import bulk
from shorturl.management import progress
from shorturl.management.commands import import_links
from shorturl.models import ShortUrl
from shorturl.tests.callers import create_link, user
from shorturl.tests.transfer.test_link_files import KUTT_LINK, transfer
from shorturl.transfer import link_files

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = "key,target_url,title\n"
TARGET = "https://example.com/"
TAGS = [f"tag{number}" for number in range(25)]


class Imported(NamedTuple):
    keys: list[str]  # of all links
    errors: list[str]  # the lines on standard error, without the advice at their end


def import_file(path: Path, content: str) -> Imported:
    """Write a file, and import it."""
    path.write_text(content, newline="")
    code, output, errors = transfer("import_links", path)
    assert (code == 0) == output.endswith(" 0 not imported.\n")
    lines = errors.splitlines()
    if code == 1:
        assert lines.pop() == "Correct these links and run it again: other links do not change."
    return Imported(sorted(ShortUrl.objects.values_list("key", flat=True)), lines)


A, B, C = (f"{key},{TARGET}{key},{key}\n" for key in "abc")  # lines of three links
YOURLS = "keyword,url,title,timestamp,ip,clicks\n"
YOURLS_LINE = f'"{{}}","{TARGET}","{{}}","2023-05-06 05:08:09","192.0.2.1","1"\n'  # key, title
QUOTE_IN_PHP = YOURLS_LINE.format("b", 'say \\"hi\\" now')  # or of MySQL's INTO OUTFILE
QUOTES = "close each quote, and write one within a field twice."
FIELDS = "The row has more or fewer fields than the first line has names."


@pytest.mark.parametrize(
    ("text", "keys", "errors"),
    [
        pytest.param(
            YOURLS + YOURLS_LINE.format("a", "") + QUOTE_IN_PHP + YOURLS_LINE.format("c", ""),
            "ac",
            [f"Line 3: ',' expected after '\"': {QUOTES}"],
            id="a quote behind a backslash",
        ),
        pytest.param(
            f'{COLUMNS}{A}b,{TARGET},"never closed\n{C}',
            "a",
            [f"Line 3: unexpected end of data: {QUOTES}"],
            id="a quote without an end",
        ),
        pytest.param(
            f'{COLUMNS}b,{TARGET},"two\nlines"\nc,{TARGET}\n{A}',
            "ab",
            [f"Line 4: {FIELDS}"],
            id="too few fields, behind a field of two lines",
        ),
        pytest.param(f"{COLUMNS}{A}{C}".replace("\n", "\r"), "ac", [], id="ends of lines of a Mac"),
        pytest.param(f"\ufeff{COLUMNS}{A}\n{C}".replace(",", ";"), "ac", [], id="a BOM and ;"),
        pytest.param(f"{COLUMNS}{A}{C}".replace(",", "\t"), "ac", [], id="tabs"),
        pytest.param(
            f"key,target_url,,\na,{TARGET},,\n,,,\nb,{TARGET}\nc,{TARGET},\n",
            "abc",
            [],
            id="empty columns and an empty row",
        ),
    ],
)
def test_csv_is_read_as_programs_write_it(
    text: str, keys: str, errors: list[str], tmp_path: Path
) -> None:
    assert import_file(tmp_path / "links.csv", text) == ([*keys], errors)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("links.csv", b"a,b\n1,2\n", "No program writes links with 'a', 'b': use key, target_url,"),
        ("links.csv", b"key,hit,url\n", "with 'hit', 'key', 'url': use key, target_url,"),
        # Answers of Shlink's API, whose visits have another name.
        ("links.json", b'{"shortCode": "a", "longUrl": "https://a.example"}', "No program writes"),
        ("links.json", b"[1, 2]", "1 is no link: an entry must be an object such as {"),
        ("links.txt", b"key,url", "Its format is unknown: use --format csv or --format json."),
        ("links.csv", "key,é".encode("utf-16"), "not UTF-8: `iconv -f UTF-16 -t UTF-8` converts"),
        ("links.csv", "\ufeffkey,é".encode("utf-16-be"), "`iconv -f UTF-16 -t UTF-8` converts"),
        ("links.csv", b"key,\xe9", "not UTF-8: `iconv -f WINDOWS-1252 -t UTF-8` converts it"),
        ("missing/links.csv", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(
    name: str, content: bytes | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, output, errors = transfer("import_links", path)
    assert (code, output) == (2, "")
    assert says in errors


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"key": "a b"}, "'a b' is not a valid key: use 1 to 64 letters"),
        ({"target_url": "ftp://example.com"}, "is not a web address: start it with"),
        ({"target_url": "https://a.example/\ud800"}, "contains a character U+D800"),
        ({"target_url": TARGET.ljust(2_001, "a")}, "has 2,001 characters: use at most 2,000."),
        # A link that leads to this service would loop.
        ({"target_url": "http://127.0.0.1:8000/b"}, "is an address of this service"),
        ({"target_url": "https://sho.rt/a"}, "is an address of this service"),
        ({"hits": -1}, "hits: Ensure this value is greater than or equal to 0."),
        ({"hits": 2**63}, "hits: Ensure this value is less than or equal to"),
        ({"hits": "many"}, "hits: “many” value must be an integer."),
        ({"hits": 5, "max_hits": 4}, "max_hits is less than hits"),
        ({"max_hits": 0}, "max_hits: Ensure this value is greater than or equal to 1."),
        ({"created_at": "31.12.2023 14:05"}, "created_at: “31.12.2023 14:05” value has an invalid"),
        ({"created_at": "9999-12-31T23:59:59-14:00"}, "outside the years 1 to 9999"),
        ({"forward_query": 2}, "must be either True or False."),
        ({"owner": "x"}, "There is no account 'x': create it first."),
    ],
)
def test_a_refusal_names_the_link_and_the_reason(
    fields: dict[str, Any], says: str, tmp_path: Path, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "sho.rt"]
    link = {"key": "bad", "target_url": TARGET, **fields}
    text = json.dumps([{"key": "good", "target_url": TARGET}, link])
    keys, (error,) = import_file(tmp_path / "links.json", text)
    assert keys == ["good"]
    assert error.startswith(f"Link 2, {link['key']}: ")
    assert says in error


# As a spreadsheet saves our export: it changes numbers and switches, and drops leading apostrophes.
SPREADSHEET = """key,target_url,title,tags,hits,max_hits,forward_query,created_at
-dash,https://example.com/c,=1+1,=cmd,"1,234",5000.0,FALSE,2024-01-05T10:00:00+00:00
'-a,https://example.com/a,'=1+1,'-b,12.0,,TRUE,2024-01-05T10:00:00.123456+00:00
b,https://example.com/b,'tis the season,'x,1,"1,234,567",1,2024-01-05T10:00:00+00:00
c,https://example.com/c,''tis the season,''x,,,,2024-01-05T10:00:00+00:00
"""


def test_an_export_comes_back_as_a_spreadsheet_has_saved_it(tmp_path: Path) -> None:
    keys, errors = import_file(tmp_path / "links.csv", SPREADSHEET)
    assert (keys, errors) == (["-a", "-dash", "b", "c"], [])
    links = ShortUrl.objects.order_by("key")
    assert list(links.values_list("title", "tags", "hits", "max_hits", "forward_query")) == [
        ("=1+1", ["-b"], 12, None, True),
        ("=1+1", ["=cmd"], 1_234, 5_000, False),
        ("'tis the season", ["'x"], 1, 1_234_567, True),  # no export puts this apostrophe
        ("'tis the season", ["'x"], 0, None, False),
    ]


@pytest.mark.parametrize("hits", ["1.5", "12,34", "1.000", "1,2345", "1e3", ",123"])
def test_a_number_that_can_be_read_in_two_ways_is_refused(hits: str, tmp_path: Path) -> None:
    text = f'key,target_url,hits\na,{TARGET},"{hits}"\n'
    keys, (error,) = import_file(tmp_path / "links.csv", text)
    assert (keys, error) == ([], f"Line 2, a: hits: “{hits}” value must be an integer.")


def test_a_bad_entry_of_json_is_named_and_the_others_are_imported(tmp_path: Path) -> None:
    good = {"key": "a", "target_url": TARGET, "owner": None}
    bad: list[Any] = [
        7,
        ["a"],
        {"url": TARGET},
        {**good, "owner": {"a": 1}},
        {**good, "key": "\ud800"},
    ]
    keys, errors = import_file(tmp_path / "links.json", json.dumps([good, *bad, good | {"key": 2}]))
    assert keys == ["2", "a"]
    assert [error.partition(":")[0] for error in errors] == [
        *("Link 2", "Link 3", "Link 4", "Link 5, a"),
        "Link 6",  # without its key, which no terminal can print
    ]


def test_the_file_may_be_standard_input_of_a_named_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(f"{COLUMNS}{A}".encode())))
    assert transfer("import_links", "-", "--format", "csv").code == 0
    assert ShortUrl.objects.get().key == "a"


def test_an_import_says_every_few_seconds_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0)
    _, errors = import_file(tmp_path / "links.csv", f"{COLUMNS}{A}{B}{C}")
    assert errors == ["1 link so far.", "2 links so far.", "3 links so far."]
    export = transfer("export_links", tmp_path / "out.csv").errors.splitlines()
    assert export == [*(f"{n} of 3 links so far." for n in (1, 2, 3)), "3 links exported."]


def test_ctrl_c_ends_an_import_with_the_position_and_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MAX_LINKS", 1)  # of a batch
    make_row = link_files.make_row

    def interrupt(position: str, link: Any, warn: Any) -> Any:
        if link["key"] == "c":
            raise KeyboardInterrupt
        return make_row(position, link, warn)

    path = tmp_path / "links.csv"
    path.write_text(f"{COLUMNS}{A}{B}{C}")
    with monkeypatch.context() as patch:
        patch.setattr(import_links, "open_text", Mock(side_effect=KeyboardInterrupt))
        code, _, errors = transfer("import_links", path)
    assert errors.startswith("Interrupted at: the beginning of the file. 0 links imported")
    with monkeypatch.context() as patch:
        patch.setattr(import_links, "make_row", interrupt)
        code, _, errors = transfer("import_links", path)
    assert code == 130
    assert errors == (
        "Interrupted at: Line 4, c. 1 link imported, 0 existed already, 0 not imported. "
        "Run it again: links that exist do not change.\n"
    )
    assert transfer("import_links", path).output.startswith("2 links imported, 1 existed already")


@pytest.mark.parametrize(
    ("time", "year"),  # of an expiry; None if there is none
    [
        ("0000-00-00 00:00:00", None),
        ("NULL", None),
        ("None", None),
        ("\\N", None),
        ("2023-12-31 14:05", 2023),
        ("2024-01-01T00:01:00+23:59", 2023),
    ],
)
def test_times_are_read_as_databases_write_them(
    time: str, year: int | None, tmp_path: Path
) -> None:
    text = f"key,target_url,max_hits,expires_at\na,{TARGET},NULL,{time}\n"
    assert import_file(tmp_path / "links.csv", text) == (["a"], [])
    expires_at = ShortUrl.objects.get().expires_at
    assert (expires_at and expires_at.year) == year


def test_keys_that_are_taken_deleted_or_repeated_are_named(tmp_path: Path) -> None:
    create_link("a", target_url="https://theirs.example/", hits=7)
    create_link("b", target_url=f"{TARGET}b").delete()
    text = f"{COLUMNS}{A}{B}{C}{C}c,{TARGET}other,\n"  # the same line twice is no error
    _, errors = import_file(tmp_path / "links.csv", text)
    assert errors == [
        "Line 2, a: leads to 'https://theirs.example/' here: choose another key in the file.",
        "Line 3, b: deleted here, not imported.",
        f"Line 6, c: leads to '{TARGET}c' here: choose another key in the file.",
    ]
    assert dict(ShortUrl.objects.values_list("key", "hits")) == {"a": 7, "b": 0, "c": 0}


@pytest.mark.parametrize(
    ("title", "tags", "warning", "imported_title", "imported_tags"),
    [
        ("Its\x07 here", "", "the character U+0007 at position 4: leave it out.", "Its here", None),
        ("x" * 600, "", "The title has 600 characters: use at most 512.", "x" * 512, None),
        ("", "|".join(TAGS), "The link has 25 tags: use at most 20.", "", TAGS[:20]),
        ("", "a" * 60, "has 60 characters: use at most 50.", "", ["a" * 50]),
    ],
    ids=["a character", "a long title", "many tags", "a long tag"],
)
def test_a_title_and_tags_that_do_not_fit_are_cut_and_named(
    title: str, tags: str, warning: str, imported_title: str, imported_tags: Any, tmp_path: Path
) -> None:
    text = f"shortCode,longUrl,title,tags\nodd,{TARGET},{title},{tags}\n"
    keys, (error,) = import_file(tmp_path / "shlink.csv", text)
    assert keys == ["odd"]
    assert error.startswith("Line 2, odd: The ")
    assert error.endswith(f"{warning} What fits is imported.")
    link = ShortUrl.objects.get()
    assert (link.title, link.tags) == (imported_title, imported_tags)


def test_what_another_program_did_not_serve_is_left_out(tmp_path: Path) -> None:
    links = [
        {**KUTT_LINK, "address": f"kutt{number}", "banned": number == 2, "password": number == 3}
        for number in (1, 2, 3)
    ]
    keys, errors = import_file(tmp_path / "kutt.json", json.dumps({"total": 3, "data": links}))
    assert keys == ["kutt1"]
    assert errors == [
        "Link 2, kutt2: banned at Kutt; left out.",
        "Link 3, kutt3: protected by a password at Kutt; left out.",
    ]


def test_malformed_json_ends_the_import_and_is_named(tmp_path: Path) -> None:
    text = f'{{"key": "a", "target_url": "{TARGET}"}}\n{{"key": "b\n'
    keys, (error,) = import_file(tmp_path / "links.jsonl", text)
    assert keys == ["a"]
    assert error.startswith("After link 1: It is not JSON: Invalid control character at: line 2")


def test_an_import_again_sets_a_known_owner_of_links_that_have_none(tmp_path: Path) -> None:
    ann, ben = user(), user()
    path = tmp_path / "links.csv"
    import_file(path, f"{COLUMNS}{A}{B}{C}")
    ShortUrl.objects.filter(key="a").update(owner=ben)
    summary = "0 links imported, 3 existed already (2 got an owner), 0 not imported.\n"
    assert transfer("import_links", path, "--owner", ann.username) == (0, summary, "")
    owners = dict(ShortUrl.objects.values_list("key", "owner_id"))
    assert owners == {"a": ben.pk, "b": ann.pk, "c": ann.pk}
    path.write_text(f"key,target_url,owner\nd,{TARGET},{ben.username}\n")
    transfer("import_links", path, "--owner", ann.username)  # only for links without one
    assert ShortUrl.objects.get(key="d").owner == ben
    _, _, errors = transfer("import_links", path, "--owner", "nobody")
    assert "There is no user 'nobody'" in errors
