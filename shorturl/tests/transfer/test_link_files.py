"""manage.py export_links and import_links, with files of this service and of other ones."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper

from shorturl import bulk, following
from shorturl.bulk import MAX_LINKS
from shorturl.management.commands import export_links
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db(transaction=True)

TARGET, OTHER = "https://example.com/ü?a=1,2&b=\"'", "https://example.org/"
WHEN = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)


def transferred(command: str, *arguments: object) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=out, stderr=err)
    except CommandError as error:
        return error.returncode, out.getvalue(), f"{err.getvalue()}{error}\n"
    return 0, out.getvalue(), err.getvalue()


def stored() -> dict[str, Any]:
    links = ShortUrl.objects.select_related("owner")
    return {link.key: export_links.columns(link) for link in links}


def links_of_all_kinds() -> None:
    owner = User.objects.create_user("Zoë")
    for number in range(20):
        ShortUrl.objects.create(key=f"k{number}", target_url=f"{TARGET}{number}", hits=number)
    ShortUrl.objects.filter(key="k1").update(owner=owner, max_hits=9, expires_at=WHEN)
    ShortUrl.objects.filter(key="k9").update(max_hits=2**63 - 1)
    ShortUrl.objects.filter(key="k2").update(created_at=WHEN, hits=2**62)
    ShortUrl.objects.filter(key="k3").delete()
    ShortUrl.objects.filter(key="k4").update(forward_query=True)
    ShortUrl.objects.filter(key="k7").update(title="=1+1, “Spring”", tags=["-news", "spring"])
    ShortUrl.objects.filter(key="k8").update(title="'tis | spring")
    ShortUrl.objects.create(key="-2-3", target_url=OTHER)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_export_and_import(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_links, "PAGE", 7)
    links_of_all_kinds()
    before, path = stored(), tmp_path / f"links.{kind}"
    assert transferred("export_links", path) == (0, "", "21 links are exported.\n")
    assert transferred("export_links", "-", "--format", kind)[1] == path.read_text()
    # A spreadsheet would evaluate a cell that begins with a hyphen.
    assert kind == "jsonl" or f"\n'-2-3,{OTHER}," in path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    ShortUrl.objects.all().erase()
    imported = "21 links imported, 0 existed already, 0 lines not imported.\n"
    assert transferred("import_links", path) == (0, imported, "")
    assert stored() == before
    assert (before["k4"]["hits"], before["k3"]["deleted_at"] is None) == (4, False)

    following.follow("k5", None)
    ShortUrl.objects.filter(key="k6").delete()
    after = stored()
    again = "0 links imported, 21 existed already, 0 lines not imported.\n"
    assert transferred("import_links", path) == (0, again, "")
    assert stored() == after


def test_an_export_is_one_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: CursorWrapper
) -> None:
    """After the first page another session creates a link, and follows and deletes others."""
    monkeypatch.setattr(export_links, "PAGE", 5)
    links_of_all_kinds()
    before, path = stored(), tmp_path / "links.jsonl"
    monkeypatch.setattr(export_links, "json_writer", lambda file: written.append)
    written: list[dict[str, Any]] = []
    columns = export_links.columns

    def meanwhile(link: ShortUrl) -> dict[str, Any]:
        if link.key == "k4":
            elsewhere.execute("UPDATE shorturl_shorturl SET hits = hits + 1, deleted_at = now()")
            elsewhere.execute("INSERT INTO shorturl_shorturl (key, target_url) VALUES ('new', '')")
        return columns(link)

    with monkeypatch.context() as patch:
        patch.setattr(export_links, "columns", meanwhile)
        assert transferred("export_links", path)[0] == 0
    assert {each["key"]: each for each in written} == before
    assert len(stored()) == 22


SHLINK = f"""\
"createdAt","domain","shortCode","shortUrl","longUrl","title","tags","visits"
"2023-05-06T07:08:09+02:00","s.test","abc","https://s.test/abc","{OTHER}","A, b","x|y",12"""
OLD_SHLINK = f"""createdAt,shortUrl,longUrl,title,tags,visits
2023-05-06T05:08:09Z,https://s.test/abc,{OTHER},"A, b",X | y|x,12
"""
YOURLS = f"source,target,hits\r\n/abc/,{OTHER},12\r\n"
YOURLS_TABLE = f"""keyword,url,title,timestamp,ip,clicks
"abc","{OTHER}","A, b","2023-05-06 05:08:09","127.0.0.1","12"
"""
KUTT_LINK = {
    "id": "3d7a5fd4-1b8e-4b39-8c2b-8c4a2f6f0f5e",
    "address": "abc",
    "banned": False,
    "created_at": "2023-05-06T05:08:09.000Z",
    "updated_at": "2024-01-01T00:00:00.000Z",
    "password": False,
    "description": "A, b",
    "expire_in": None,
    "target": OTHER,
    "visit_count": 12,
    "domain": None,
    "link": "https://kutt.test/abc",
}
KUTT = json.dumps({"total": 1, "limit": 10, "skip": 0, "data": [KUTT_LINK]}) + "\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shlink.csv", SHLINK),
        ("old-shlink.csv", OLD_SHLINK),
        ("yourls.csv", YOURLS),
        ("yourls-table.csv", YOURLS_TABLE),
        ("kutt.jsonl", KUTT),
        ("kutt-link.jsonl", json.dumps(KUTT_LINK)),
    ],
)
def test_files_of_other_services(name: str, text: str, tmp_path: Path) -> None:
    """The files have every field that these programs write, with its name, type and quotes.

    Shlink: ExportShortUrlsBtn.tsx of shlink-web-component, written by the Parser of
    @json2csv/plainjs, which quotes texts. Kutt: `selectable` of server/queries/link.queries.js,
    after `sanitize.link` of server/utils/utils.js, in the answer of `get` of
    server/handlers/links.handler.js; JSON omits fields that are undefined there.
    """
    User.objects.create_user("ann")
    path = tmp_path / name
    path.write_text(text, newline="")
    code, said, _ = transferred("import_links", path, "--owner", "ann")
    assert (code, said[:16]) == (0, "1 links imported")
    link = ShortUrl.objects.select_related("owner").get()
    assert (link.key, link.target_url, link.hits) == ("abc", OTHER, 12)
    assert str(link.owner) == "ann"
    assert link.tags == (["x", "y"] if "shlink" in name else None)
    assert link.title == ("" if name == "yourls.csv" else "A, b")
    if name != "yourls.csv":
        assert link.created_at == datetime(2023, 5, 6, 5, 8, 9, tzinfo=UTC)


def test_kutts_expiry_and_what_may_be_null(tmp_path: Path) -> None:
    """`expire_in` is in UTC, in the format of its database (parseDatetime of utils.js)."""
    null = {"description": None, "domain": "links.test", "visit_count": 0}
    path = tmp_path / "links.jsonl"
    # PostgreSQL and MySQL, SQLite.
    for expire_in in ("2123-05-06T05:08:09.000Z", "2123-05-06 05:08:09"):
        ShortUrl.objects.all().erase()
        path.write_text(json.dumps({**KUTT_LINK, **null, "expire_in": expire_in}))
        assert transferred("import_links", path)[0] == 0
        link = ShortUrl.objects.get()
        assert link.expires_at == datetime(2123, 5, 6, 5, 8, 9, tzinfo=UTC)
        assert (link.title, link.tags, link.hits) == ("", None, 0)


LINES = {
    "key": "",
    f"a,{OTHER},1": "",
    f"theirs,{OTHER},1": "The key 'theirs' leads to 'https://example.com/' here: choose another",
    f"a b,{OTHER},1": "'a b' is not a valid key: use 1 to 64 letters",
    "b,ftp://example.com,1": "is not a web address: start it with",
    f"c,{OTHER},-1": "hits is '-1': use a whole number, such as 42.",
    f"d,{OTHER},{2**63}": "use a whole number",
    f"e,{OTHER}": "The row has more or fewer fields than the first line has names.",
    f"a,{OTHER}?,2": f"The key 'a' leads to '{OTHER}' here",
    f"a,{OTHER},3": "",  # the first line of a key counts
}


def test_errors_name_the_line(tmp_path: Path) -> None:
    ShortUrl.objects.create(key="theirs", target_url="https://example.com/", hits=7)
    path = tmp_path / "links.txt"
    path.write_text("\n".join(["key,target_url,hits", *list(LINES)[1:]]))
    code, said, errors = transferred("import_links", path, "--format", "csv")
    assert code == 1
    assert said == "1 links imported, 1 existed already, 7 lines not imported.\n"
    keys, *shown, last = errors.splitlines()
    assert keys == "1 links have keys that are not valid here, and are left out: 'a b'."
    expected = {
        f"Line {number}": message for number, message in enumerate(LINES.values(), 1) if message
    }
    found = dict(sorted(line.split(": ", 1) for line in shown))
    assert found.keys() == expected.keys()
    assert all(message in found[line] for line, message in expected.items())
    assert last == "Correct these lines and run it again: other links do not change."
    assert dict(ShortUrl.objects.values_list("key", "hits")) == {"theirs": 7, "a": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"created_at": "soon"}, "such as 2026-"),
        ({"created_at": "9999-12-31T23:59:59-14:00"}, "outside the years 1 to 9999"),
        ({"owner": "x"}, "no account 'x'"),
        ({"owner": "\0"}, "no account '\\x00'"),
        ({"owner": "\ud800"}, "no account"),
        ({"hits": 5, "max_hits": 4}, "at least 1"),
        ({"hits": 2**62 + 1}, f"The largest is {2**62}."),
        ({"hit": 5}, "Unknown: 'hit'."),
        ({"title": "x" * 513}, "The title has 513 characters: use at most 512."),
        ({"tags": ["a", 1]}, "tags is \"['a', 1]\": use a list of words."),
        ({"tags": ["x" * 51]}, "use at most 50."),
        ({"forward_query": 2}, "forward_query is '2': use true or false."),
        ({"tags": ["a,b"]}, "which separates tags"),
        ({"tags": ",".join(map(str, range(21)))}, "The link has 21 tags: use at most 20."),
        ({"target_url": "https://a.example/\ud800"}, "character"),
        (json.dumps({**KUTT_LINK, "password": True}), "'password', which"),
        (json.dumps({**KUTT_LINK, "description": "x" * 513}), "The title has 513 characters"),
        ('{"shortCode": "a", "longUrl": "https://a.example"}', "Neither this service nor Shlink"),
        ('{"url": "https://a.example"}', "use at least the columns key and target_url"),
        ("[1]", "is not a JSON object"),
        ("{", "is not JSON: Expecting"),
    ],
)
def test_an_invalid_line_of_json(line: str | dict[str, Any], says: str, tmp_path: Path) -> None:
    if isinstance(line, dict):
        line = json.dumps({"key": "a", "target_url": "https://a.example", **line})
    path = tmp_path / "links.jsonl"
    path.write_text(f"\n{line}\n")
    code, _, errors = transferred("import_links", path)
    assert code == 1
    assert errors.startswith("Line 2: ")
    assert says in errors
    assert not ShortUrl.objects.exists()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("links.csv", "a,b\n1,2\n", "use at least the columns key and target_url."),
        ("links.csv", "key,target_url,key\n", "Repeated columns: 'key'."),
        ("links.csv", '"key,target_url\n', "A quote that opens here is not closed."),
        ("links.json", "{\n\n  'key': 'a'\n}\n", "Line 3 is not JSON: Expecting property name"),
        ("links.json", '{\n  "key": "a",\n', "Line 2 is not JSON: Expecting"),
        ("links.txt", "", "use --format csv or --format jsonl or --format json."),
        ("missing.csv", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read(name: str, text: str | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    code, _, errors = transferred("import_links", path)
    assert code == 2
    assert says in errors


def test_links_are_imported_although_analyze_fails(
    tmp_path: Path, elsewhere: CursorWrapper
) -> None:
    path = tmp_path / "links.csv"
    path.write_text("key,target_url\nspring,https://example.com/\n")
    elsewhere.execute("BEGIN; LOCK TABLE shorturl_shorturl IN SHARE UPDATE EXCLUSIVE MODE")
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    code, said, errors = transferred("import_links", path)
    connection.close()  # which drops the setting
    elsewhere.execute("ROLLBACK")
    assert (code, said.startswith("1 links imported")) == (0, True)
    assert "ANALYZE failed: canceling statement due to lock timeout" in errors


def test_an_interrupted_import_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails after two batches, links are used, and the import runs again."""
    count, path = 3 * MAX_LINKS + 500, tmp_path / "links.csv"
    rows = [f"k{number:05},https://example.com/{number},{number}" for number in range(count)]
    path.write_text("\n".join(["key,target_url,hits", *rows]))
    begun: list[int] = []

    def goes_away(batch: Sequence[Any]) -> Any:
        begun.append(len(batch))
        if len(begun) == 3:
            raise OperationalError("server closed the connection\nat once")
        return insert(batch)

    insert = bulk.insert
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "insert", goes_away)
        code, _, errors = transferred("import_links", path)
    said = "The database: server closed the connection. 2,000 links imported, 0 existed already"
    assert (code, errors.startswith(said)) == (2, True)
    following.follow("k00000", None)
    ShortUrl.objects.filter(key="k00001").delete()
    assert ShortUrl.objects.count() == 2 * MAX_LINKS
    again = "1,500 links imported, 2,000 existed already, 0 lines not imported.\n"
    assert transferred("import_links", path) == (0, again, "")
    links = ShortUrl.objects.order_by("key")
    assert list(links.values_list("key", "target_url", "hits")) == [
        (f"k{number:05}", f"https://example.com/{number}", number or 1) for number in range(count)
    ]
    assert links.get(key="k00001").deleted_at
