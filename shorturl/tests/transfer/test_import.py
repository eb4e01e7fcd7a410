"""What import_links refuses, and what it says; files as other programs and people write them."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from shorturl.models import ShortUrl
from shorturl.tests.transfer.test_link_files import KUTT_LINK, transferred

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = "key,target_url,title\n"
TARGET = "https://example.com/"
TAGS = [f"tag{number}" for number in range(25)]


def imported(path: Path, content: str | bytes) -> tuple[list[str], list[str]]:
    """Write a file and import it; return the keys of all links, and the lines on standard error."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, output, errors = transferred("import_links", path)
    assert (code == 0) == output.endswith(" 0 not imported.\n")
    lines = errors.splitlines()
    if code == 1:
        assert lines.pop() == "Correct these links and run it again: other links do not change."
    return sorted(ShortUrl.objects.values_list("key", flat=True)), lines


A, B, C = (f"{key},{TARGET}{key},{key}\n" for key in "abc")
YOURLS = "keyword,url,title,timestamp,ip,clicks\n"
QUOTED = f'"{{}}","{TARGET}","{{}}","2023-05-06 05:08:09","192.0.2.1","1"\n'.format
ONE_WITHIN = "close each quote, and write one within a field twice."


@pytest.mark.parametrize(
    ("text", "keys", "errors"),
    [
        # As PHP and MySQL's INTO OUTFILE write a quote.
        (
            YOURLS + QUOTED("a", "one") + QUOTED("b", 'say \\"hi\\" now') + QUOTED("c", "three"),
            "ac",
            [f"Line 3: ',' expected after '\"': {ONE_WITHIN}"],
        ),
        (
            f'{COLUMNS}{A}b,{TARGET},"never closed\n{C}',
            "a",
            [f"Line 3: unexpected end of data: {ONE_WITHIN}"],
        ),
        (
            f'{COLUMNS}b,{TARGET},"two\nlines"\nc,{TARGET}\n{A}',
            "ab",
            ["Line 4: The row has more or fewer fields than the first line has names."],
        ),
        (f"{COLUMNS}{A}{C}".replace("\n", "\r"), "ac", []),
        (f"\ufeff{COLUMNS}{A}\n{C}".replace(",", ";"), "ac", []),
        (f"{COLUMNS}{A}{C}".replace(",", "\t"), "ac", []),
        (f"key,target_url,,\na,{TARGET},,\n,,,\nb,{TARGET}\nc,{TARGET},\n", "abc", []),
    ],
)
def test_csv(text: str, keys: str, errors: list[str], tmp_path: Path) -> None:
    assert imported(tmp_path / "links.csv", text) == ([*keys], errors)


@pytest.mark.parametrize(
    ("encoding", "says"),
    [("utf-16", "UTF-16"), ("latin-1", "WINDOWS-1252")],
)
def test_another_encoding_is_refused_with_the_command_that_converts_it(
    encoding: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "links.csv"
    keys, (error,) = imported(path, f"{COLUMNS}{A}b,{TARGET},é\n".encode(encoding))
    assert keys == []
    assert f"It is not UTF-8: `iconv -f {says} -t UTF-8` converts it" in error


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("links.csv", "a,b\n1,2\n", "No program writes links with 'a', 'b': use key, target_url,"),
        ("links.csv", f"{COLUMNS.strip()},hit\n", "with 'hit', 'key', 'target_url', 'title': use"),
        # Answers of Shlink's API, whose visits have another name.
        ("links.json", '{"shortCode": "a", "longUrl": "https://a.example"}', "No program writes"),
        ("links.json", "[1, 2]", "1 is no link: an entry must be an object such as {"),
        ("links.txt", COLUMNS, "Its format is unknown: use --format csv or --format json."),
        ("missing/links.csv", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read(
    name: str, content: str | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    code, output, errors = transferred("import_links", path)
    assert (code, output) == (2, "")
    assert says in errors


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"key": "a b"}, "'a b' is not a valid key: use 1 to 64 letters"),
        ({"target_url": "ftp://example.com"}, "is not a web address: start it with"),
        ({"target_url": "https://a.example/\ud800"}, "contains a character U+D800"),
        ({"target_url": TARGET.ljust(2_001, "a")}, "has 2,001 characters: use at most 2,000."),
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
    fields: dict[str, Any], says: str, tmp_path: Path
) -> None:
    link = {"key": "bad", "target_url": TARGET, **fields}
    text = json.dumps([{"key": "good", "target_url": TARGET}, link, {**link, **fields}])
    keys, (error, *_) = imported(tmp_path / "links.json", text)
    assert keys == ["good"]
    assert error.startswith(f"Link 2, {link['key']}: ")
    assert says in error


@pytest.mark.parametrize(
    ("time", "year"),
    [
        ("0000-00-00 00:00:00", None),
        ("NULL", None),
        ("\\N", None),
        ("2023-12-31 14:05", 2023),
        ("2024-01-01T00:01:00+23:59", 2023),
    ],
)
def test_times(time: str, year: int | None, tmp_path: Path) -> None:
    text = f"key,target_url,max_hits,expires_at\na,{TARGET},NULL,{time}\n"
    assert imported(tmp_path / "links.csv", text) == (["a"], [])
    expires_at = ShortUrl.objects.get().expires_at
    assert (expires_at and expires_at.year) == year


def test_a_link_that_leads_to_this_service_would_loop(tmp_path: Path, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1", "sho.rt"]
    loop = "key,target_url\na,http://127.0.0.1:8000/b\nb,https://sho.rt/a\n"
    keys, errors = imported(tmp_path / "loop.csv", loop)
    assert keys == []
    for error, link in zip(errors, ("Line 2, a: ", "Line 3, b: "), strict=True):
        assert error.startswith(link)
        assert "is an address of this service" in error


def test_keys_that_are_taken_or_deleted_here(tmp_path: Path) -> None:
    """A key leads to another target, is deleted, or is repeated in the file."""
    ShortUrl.objects.create(key="a", target_url="https://theirs.example/", hits=7)
    ShortUrl.objects.create(key="b", target_url=f"{TARGET}b").delete()
    text = f"{COLUMNS}{A}{B}{C}{C}c,{TARGET}other,\n"
    _, errors = imported(tmp_path / "links.csv", text)
    assert errors == [
        "Line 2, a: leads to 'https://theirs.example/' here: choose another key in the file.",
        "Line 3, b: deleted here, not imported.",
        f"Line 6, c: leads to '{TARGET}c' here: choose another key in the file.",
    ]
    assert dict(ShortUrl.objects.values_list("key", "hits")) == {"a": 7, "b": 0, "c": 0}


@pytest.mark.parametrize(
    ("title", "tags", "warning", "expected"),
    [
        (
            "Its\x07 here",
            "",
            "The title contains the character U+0007 at position 4: leave it out.",
            ("Its here", None),
        ),
        ("x" * 600, "", "The title has 600 characters: use at most 512.", ("x" * 512, None)),
        ("", "|".join(TAGS), "The link has 25 tags: use at most 20.", ("", TAGS[:20])),
        ("", "a" * 60, "has 60 characters: use at most 50.", ("", ["a" * 50])),
    ],
)
def test_a_title_and_tags_that_do_not_fit_are_cut_and_named(
    title: str, tags: str, warning: str, expected: Any, tmp_path: Path
) -> None:
    text = f"shortCode,longUrl,title,tags\nodd,{TARGET},{title},{tags}\n"
    keys, (error,) = imported(tmp_path / "shlink.csv", text)
    assert keys == ["odd"]
    assert error.startswith("Line 2, odd: The ")
    assert error.endswith(f"{warning} What fits is imported.")
    assert ShortUrl.objects.values_list("title", "tags").get() == expected


def test_what_another_program_did_not_serve_is_left_out(tmp_path: Path) -> None:
    links = [
        {**KUTT_LINK, "address": f"kutt{number}", "banned": number == 2, "password": number == 3}
        for number in (1, 2, 3)
    ]
    text = json.dumps({"total": 3, "data": links})
    assert imported(tmp_path / "kutt.json", text) == (
        ["kutt1"],
        [
            "Link 2, kutt2: banned at Kutt; left out.",
            "Link 3, kutt3: protected by a password at Kutt; left out.",
        ],
    )


def test_malformed_json_ends_the_import_and_is_named(tmp_path: Path) -> None:
    text = f'{{"key": "a", "target_url": "{TARGET}"}}\n{{"key": "b\n'
    keys, (error,) = imported(tmp_path / "links.jsonl", text)
    assert keys == ["a"]
    assert error.startswith("After link 1: It is not JSON: Invalid control character at: line 2")


def test_an_import_again_sets_the_owner_of_links_that_have_none(tmp_path: Path) -> None:
    ann, ben = (User.objects.create_user(name) for name in ("ann", "ben"))
    path = tmp_path / "links.csv"
    path.write_text(f"{COLUMNS}{A}{B}{C}")
    transferred("import_links", path)
    ShortUrl.objects.filter(key="a").update(owner=ben)
    summary = "0 links imported, 3 existed already (2 got an owner), 0 not imported.\n"
    assert transferred("import_links", path, "--owner", "ann") == (0, summary, "")
    owners = dict(ShortUrl.objects.values_list("key", "owner_id"))
    assert owners == {"a": ben.pk, "b": ann.pk, "c": ann.pk}
    assert "There is no user 'nobody'" in transferred("import_links", path, "--owner", "nobody")[2]
