"""A walk through the service as a user and as a program, with the expected answer of each step."""

import csv
import html
import json
import re
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.test import Client

from project.database.prepared import PreparedCursor
from shorturl import operations
from shorturl.limits import owners
from shorturl.management.commands import demo
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import combined

TARGET = "https://example.com/walk"
LOGIN = {"username": "walker", "password": "one step after another"}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
JSON = "application/json"
BROWSER = Client(headers={"user-agent": FIREFOX})


def says(response: Any, status: int, *words: str) -> str:
    """Return the text of an answer; raise AssertionError if it is unexpected."""
    text = html.unescape(b"".join(response).decode())
    assert response.status_code == status, f"{response.status_code} and not {status}: {text}"
    for each in words:
        assert each in text, f"no {each!r} in {text}"
    return text


def command(*arguments: str, says: str = "") -> str:
    """Return the output of a command; raise AssertionError if it is unexpected."""
    output = StringIO()
    call_command(*arguments, stdout=output, stderr=StringIO())
    assert re.search(says, output.getvalue()), f"{arguments}: {output.getvalue()!r}"
    return output.getvalue().strip()


def log_in() -> None:
    ShortUrl.objects.filter(key__startswith="walk").erase()
    for left in User.objects.filter(username=LOGIN["username"]):
        owners.remove(left)
    User.objects.create_superuser(**LOGIN)
    says(BROWSER.post("/login", {**LOGIN, "password": "wrong"}), 200, "Please enter a correct")
    says(BROWSER.post("/login", LOGIN), 302)


def create() -> None:
    for key in ("walk-first", "walk-second"):
        form = {"target_url": f"{TARGET}/{key}", "key": key}
        says(BROWSER.post("/", form, follow=True), 200, "Your short URL is ready.", f"/{key}</h1>")
    says(BROWSER.post("/", form), 409, "'walk-second' is taken")


def follow() -> None:
    for _ in range(2):
        response = BROWSER.get("/walk-first")
        says(response, 302)
        assert response["Location"] == f"{TARGET}/walk-first", response["Location"]
    says(BROWSER.head("/walk-first"), 302)
    says(BROWSER.get("/walk-none"), 404)


def follow_by_a_prepared_statement() -> None:
    operations.create(TARGET, key="walk-often")
    connection.close()
    with PreparedCursor(connections[DEFAULT_DB_ALIAS]) as cursor:
        counted = [combined.count_one("walk-often", 1, cursor) for _ in range(2)]
        assert [row and row[3] for row in counted] == [1, 2]
        cursor.execute("SELECT name FROM pg_prepared_statements")
        if settings.DATABASE_POOLER == "none" and not settings.DATABASE_CITUS:
            assert cursor.fetchall(), "it was sent unprepared"


def see_the_page_of_statistics() -> None:
    says(BROWSER.get("/walk-first/stats"), 200, '<dd class="hits">2</dd>', "Firefox")
    says(BROWSER.get("/walk-first/stats?from=2026-01-01&to=2026-12-31&by=month"), 200, "2026")
    says(BROWSER.get("/walk-first/qr.svg"), 200, "<svg")


def list_and_search() -> None:
    assert "/walk-first<" not in says(
        BROWSER.get("/links?q=EXAMPLE.com/walk/walk-s"), 200, "second"
    )


def edit() -> None:
    form = {"target_url": f"{TARGET}/new", "initial-target_url": "old", "max_hits": "5"}
    says(BROWSER.post("/links/walk-first", form, follow=True), 200, "/walk-first is changed.")
    assert BROWSER.get("/walk-first")["Location"] == f"{TARGET}/new"
    says(
        BROWSER.post("/links/walk-first", {**form, "max_hits": "1"}),
        422,
        "The limit 1 is below the hits",
    )


def delete() -> None:
    address = "/links/walk-second/delete"
    says(BROWSER.get(address), 200, "walk-second")
    says(BROWSER.post(address, follow=True), 200, "/walk-second is deleted.")
    says(BROWSER.get("/walk-second"), 404)


def use_the_admin() -> None:
    says(
        BROWSER.get("/admin/shorturl/shorturl/?q=walk"), 200, "walk-first", "walk-second", "walker"
    )
    address = f"/admin/shorturl/shorturl/{ShortUrl.objects.get(key='walk-first').pk}/change/"
    says(BROWSER.get(address), 200, f"{TARGET}/new")
    owner = ShortUrl.objects.get(key="walk-first").owner_id
    form = {"target_url": f"{TARGET}/admin", "initial-target_url": "old", "owner": owner}
    says(BROWSER.post(address, form, follow=True), 200, "was changed successfully")
    assert BROWSER.get("/walk-first")["Location"] == f"{TARGET}/admin"


def use_the_api() -> None:
    token = command("token", "create", "walk", "--user", "walker", says="^shorturl_")
    client = Client(headers={"Authorization": f"Bearer {token}"})

    def call(method: str, path: str, status: int, body: Any = None, **headers: str) -> Any:
        data = "" if body is None else json.dumps(body)
        answer = client.generic(method, f"/api/links{path}", data, JSON, headers=headers)
        return json.loads(says(answer, status) or "null")

    new = {"target_url": f"{TARGET}/api", "key": "walk-api"}
    twice = [call("POST", "", 201, new, **{"Idempotency-Key": "walk"}) for _ in range(2)]
    assert twice[0] == twice[1], twice
    assert "deleted" not in call("POST", "", 409, new)["detail"]
    again = {"target_url": new["target_url"], "reuse": True}
    assert call("POST", "", 200, again)["key"] == "walk-api"
    page = call("GET", "?limit=1", 200)
    assert [each["key"] for each in page["items"]] == ["walk-api"], page
    page = call("GET", "?limit=1&after=walk-api", 200)
    assert [(each["key"], each["hits"]) for each in page["items"]] == [("walk-first", 4)], page
    assert call("PATCH", "/walk-first", 200, {"max_hits": 9})["max_hits"] == 9
    call("PATCH", "/walk-first", 422, {"max_hits": 3})
    visits = call("GET", "/walk-first/visits?of=browser", 200)
    assert [(each["value"], each["people"]) for each in visits["items"]] == [("Firefox", 4)], visits
    wanted = [{"target_url": TARGET, "key": key} for key in ("walk-1", "walk-2", "walk-api")]
    call("POST", "/bulk", 409, {"links": wanted})
    call("POST", "/bulk", 201, {"links": wanted[:2]})
    call("DELETE", "/walk-1", 204)
    call("GET", "/walk-1", 404)


def write_and_read_a_file() -> None:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "links.csv"
        command("export_links", str(file))
        with file.open(newline="") as lines:
            links = {each["key"]: each for each in csv.DictReader(lines)}
        assert (links["walk-first"]["hits"], links["walk-first"]["owner"]) == ("4", "walker"), links
        file.write_text(f"key,target_url,owner\nwalk-2,{TARGET},\nwalk-3,{TARGET},walker\n")
        command("import_links", str(file), says="1 links imported, 1 existed already, 0 not")


def make_a_demo() -> None:
    with patch.dict(demo.DEMO, links=demo.DEMO["links"][-4:-2]):
        command("demo", "--remove")
        command("demo", says="^There are 2 demo links")
        says(BROWSER.get("/demo-terms/stats?by=month&from=2000-01-01"), 200, "Referrers")
        command("demo", "--remove", says="^2 demo links are removed")


def forget() -> None:
    command("forget_answers", says="answers removed")
    command("forget_spending", says="counters removed")
    command("clearsessions")


def remove_the_account() -> None:
    command("remove_account", "walker", says="walker is removed; 6 links have no owner now")
    says(BROWSER.get("/walk-first"), 302)
    says(BROWSER.get("/links"), 302)


def walk() -> None:
    """Take all steps. Each uses the results of the earlier ones."""
    log_in()
    create()
    follow()
    follow_by_a_prepared_statement()
    see_the_page_of_statistics()
    list_and_search()
    edit()
    delete()
    use_the_admin()
    use_the_api()
    write_and_read_a_file()
    make_a_demo()
    forget()
    remove_the_account()
