"""manage.py export_links, and import_links of what it and other programs write."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper

from shorturl import bulk, following
from shorturl.bulk import MAX_LINKS
from shorturl.management.commands import export_links
from shorturl.models import ShortUrl, Visit
from shorturl.strategies.exhibits.models import erase

pytestmark = pytest.mark.django_db(transaction=True)

TARGET, OTHER = "https://example.com/ü?a=1,2&b=\"'", "https://example.org/"
WHEN = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)


class Ended(NamedTuple):
    """What a command of manage.py has returned and written."""

    code: int
    output: str
    errors: str


def transfer(command: str, *arguments: object) -> Ended:
    """Run a command, as a program of its own would."""
    out, err = StringIO(), StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=out, stderr=err)
    except CommandError as error:
        return Ended(error.returncode, out.getvalue(), f"{err.getvalue()}{error}\n")
    return Ended(0, out.getvalue(), err.getvalue())


def read_links() -> dict[str, Any]:
    """Return all links as an export writes them, by key."""
    links = ShortUrl.objects.select_related("owner")
    return {link.key: export_links.columns(link) for link in links}


def create_links_of_all_kinds() -> None:
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


def test_an_import_restores_what_an_export_wrote_and_changes_nothing_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_links, "PAGE_SIZE", 7)  # so that 21 links are three pages
    create_links_of_all_kinds()
    ShortUrl.objects.filter(key="k6").update(max_hits=6)  # so that it is used up
    before, path = read_links(), tmp_path / "links.csv"
    assert transfer("export_links", path) == (0, "", "21 links exported.\n")
    assert transfer("export_links", "-").output == path.read_text()
    # A spreadsheet would evaluate a cell that begins with a hyphen.
    assert f"\n'-2-3,{OTHER}," in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    erase(ShortUrl.objects.all())
    imported = "21 links imported, 0 existed already, 0 not imported.\n"
    assert transfer("import_links", path) == (0, imported, "")
    assert read_links() == before
    following.follow("k5", Visit(is_bot=False))
    after = read_links()
    again = "0 links imported, 21 existed already, 0 not imported.\n"
    assert transfer("import_links", path) == (0, again, "")
    assert read_links() == after


def test_an_export_is_one_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_session: CursorWrapper
) -> None:
    """During the first page another session creates a link, and follows and deletes all others."""
    monkeypatch.setattr(export_links, "PAGE_SIZE", 5)
    create_links_of_all_kinds()
    before, path = read_links(), tmp_path / "links.csv"
    columns, execute = export_links.columns, other_session.execute

    def act_elsewhere_and_export(link: ShortUrl) -> dict[str, Any]:
        if link.key == "k4":  # the last of the first page
            with connection.cursor() as cursor:
                cursor.execute("SHOW idle_in_transaction_session_timeout")
                assert cursor.fetchone() == ("0",)  # the reader of the output may be slow
            execute("UPDATE shorturl_shorturl SET hits = hits + 1, deleted_at = now()")
            execute("INSERT INTO shorturl_shorturl (key, target_url) VALUES ('new', '')")
        return columns(link)

    with monkeypatch.context() as patch, connection.cursor() as cursor:
        patch.setattr(export_links, "columns", act_elsewhere_and_export)
        cursor.execute("SET idle_in_transaction_session_timeout = '10s'")  # as in the service
        assert transfer("export_links", path).code == 0
        cursor.execute("RESET idle_in_transaction_session_timeout")
    assert len(read_links()) == 22  # with the new one
    erase(ShortUrl.objects.all())
    assert transfer("import_links", path).code == 0
    assert read_links() == before


def test_an_export_that_fails_leaves_the_last_one_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(link: ShortUrl) -> None:
        raise OperationalError("server closed the connection")

    create_links_of_all_kinds()
    path = tmp_path / "links.csv"
    path.write_text("the last one")
    monkeypatch.setattr(export_links, "columns", fail)
    code, _, errors = transfer("export_links", path)
    assert (code, path.read_text()) == (2, "the last one")
    assert "The export is not complete: try again." in errors
    code, _, errors = transfer("export_links", tmp_path / "missing" / "links.csv")
    assert (code, "links.csv cannot be written: No such file" in errors) == (2, True)


SHLINK = f"""\
"createdAt","domain","shortCode","shortUrl","longUrl","title","tags","visits"
"2023-05-06T07:08:09+02:00","s.test","abc","https://s.test/go/abc","{OTHER}","A, b","x|y",12"""
OLD_SHLINK = f"""createdAt,shortUrl,longUrl,title,tags,visits
2023-05-06T05:08:09Z,https://s.test/abc,{OTHER},"A, b",X | y|x,12
"""
SHLINK_IMPORT = f"""Long URL,Tags,Domain,Short code,Title
{OTHER},x|y,go.example,abc,"A, b"
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
KUTT = {"total": 1, "limit": 10, "skip": 0, "data": [KUTT_LINK]}


# Files with every field that these programs write, with its name, type and quotes, and the title,
# tags and hits that are in them.
# Shlink: ExportShortUrlsBtn.tsx of shlink-web-component, and the CSV source of shlink-importer.
# Kutt: `get` of server/handlers/links.handler.js, after `sanitize.link` of server/utils/utils.js.
@pytest.mark.parametrize(
    ("name", "content", "title", "tags", "hits"),
    [
        ("shlink.csv", SHLINK, "A, b", ["x", "y"], 12),
        ("shlink-old.csv", OLD_SHLINK, "A, b", ["x", "y"], 12),
        ("shlink-import.csv", SHLINK_IMPORT, "A, b", ["x", "y"], 0),
        ("yourls-plugin.csv", YOURLS, "", None, 12),
        ("yourls-table.csv", YOURLS_TABLE, "A, b", None, 12),
        ("kutt.json", json.dumps(KUTT, indent=2), "A, b", None, 12),
        ("kutt-link.jsonl", json.dumps(KUTT_LINK), "A, b", None, 12),
    ],
)
def test_a_link_of_another_service_is_imported(
    name: str, content: str, title: str, tags: list[str] | None, hits: int, tmp_path: Path
) -> None:
    User.objects.create_user("ann")
    path = tmp_path / name
    path.write_text(content, newline="")
    code, output, _ = transfer("import_links", path, "--owner", "ann")
    assert code == 0
    assert output.startswith("1 link imported,")
    link = ShortUrl.objects.select_related("owner").get()
    assert (link.key, link.target_url, str(link.owner)) == ("abc", OTHER, "ann")
    assert (link.title, link.tags, link.hits) == (title, tags, hits)
    if name not in ("yourls-plugin.csv", "shlink-import.csv"):  # which have no time
        assert link.created_at == datetime(2023, 5, 6, 5, 8, 9, tzinfo=UTC)


def test_kutts_pages_in_one_file_and_both_forms_of_its_expiry_are_read(tmp_path: Path) -> None:
    """`expire_in` is in UTC, as PostgreSQL and MySQL, or SQLite, write it."""
    path = tmp_path / "pages.json"
    with path.open("w") as file:  # as `curl … >> pages.json` writes them
        for page, time in enumerate(("2123-05-06T05:08:09.000Z", "2123-05-06 05:08:09")):
            link = {**KUTT_LINK, "address": f"k{page}", "description": None, "expire_in": time}
            json.dump({**KUTT, "data": [link]}, file)
    assert transfer("import_links", path).code == 0
    links = ShortUrl.objects.filter(key__in=["k0", "k1"])
    expiry = datetime(2123, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert [(link.title, link.expires_at) for link in links] == [("", expiry)] * 2


def test_an_interrupted_import_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails after two batches, links are used, and the import runs again."""
    count, path = 3 * MAX_LINKS + 500, tmp_path / "links.csv"
    rows = [f"k{number:05},https://example.com/{number},{number}" for number in range(count)]
    path.write_text("\n".join(["key,target_url,hits", *rows]))
    insert = bulk.insert

    def insert_or_fail(batch: Sequence[Any]) -> Any:
        if ShortUrl.objects.count() == 2 * MAX_LINKS:
            raise OperationalError("server closed the connection\nat once")
        return insert(batch)

    with monkeypatch.context() as patch:
        patch.setattr(bulk, "insert", insert_or_fail)
        code, _, errors = transfer("import_links", path)
    assert code == 2
    stopped = (  # after lines on how far it was, on a busy machine
        "The database: server closed the connection. Stopped at: Line 3,002, k03000. "
        "2,000 links imported, 0 existed already"
    )
    assert stopped in errors
    following.follow("k00000", Visit(is_bot=False))
    assert ShortUrl.objects.count() == 2 * MAX_LINKS
    code, output, _ = transfer("import_links", path)
    again = "1,500 links imported, 2,000 existed already, 0 not imported.\n"
    assert (code, output) == (0, again)
    links = ShortUrl.objects.order_by("key")
    assert list(links.values_list("key", "target_url", "hits")) == [
        (f"k{number:05}", f"https://example.com/{number}", number or 1)  # the first was followed
        for number in range(count)
    ]
