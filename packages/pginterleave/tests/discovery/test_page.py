"""The page of --interleave-html: what it says, and that no text of a suite is markup in it."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pginterleave.discovery.findings import Discovery, Explored, Race
from pginterleave.discovery.page import make_page
from pginterleave.picture.taking_part import choose_steps

from .conftest import RunSuite

MARKUP = "<img src=x onerror=alert(1)>&\"'</script>"
TESTS = """
import pytest
from django.urls import reverse
from shop.models import Voucher

CODE = "<img src=x>"

@pytest.mark.parametrize("name", ["<b>"])
def test_use(client, db, name):
    Voucher.objects.create(code=CODE)
    assert client.post(reverse("use", args=[CODE])).status_code == 200

def test_fail(client, db):
    with pytest.raises(LookupError):
        client.post("/fail/A/")
"""


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.policy = ""
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attributes)
        self.addresses += filter(None, [values.get("href"), values.get("src")])
        self.ids += filter(None, [values.get("id")])
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"] or ""

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "

    def has(self, text: str) -> bool:
        return text in " ".join(self.text.split())


def test_a_run_writes_a_page_without_a_network_and_without_markup_of_the_suite(
    run_suite: RunSuite, tmp_path: Path
) -> None:
    file = tmp_path / "races.html"
    ran = run_suite("--interleave-requests", f"--interleave-html={file}", tests=TESTS)
    assert f"As a page: {file}\n" in ran.text
    page = Page(file.read_text(encoding="utf-8"))
    [race] = ran.results["races"]
    assert page.has("1. POST use beside itself")
    assert page.has("both returned '200'. One after the other, the second returns '400'.")
    assert page.has(race["command"])
    assert page.has("shop/views.py:33")
    assert page.has("POST fail alone it answers LookupError in shop/tests.py::test_fail")
    assert page.has("code = <img src=x>")
    assert page.has("test_use[<b>]")
    assert [tag for tag in page.tags if tag in ("img", "script", "link")] == ["script"]
    assert all(address.startswith("#") for address in page.addresses)
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; "
        r"base-uri 'none'; form-action 'none'",
        page.policy,
    )


def make_step(process: int, table: str, **facts: object) -> dict[str, Any]:
    """Return a recorded step that reads a table in autocommit."""
    step: dict[str, Any] = {
        "process": process,
        "kind": "SELECT" if table else "COMMIT",
        "sql": f"SELECT {MARKUP} FROM {table}" if table else "COMMIT",
        "table": table,
        "tables": [table] if table else [],
        "result": MARKUP,
        "where": MARKUP,
        "writes": [],
        "read": [],
        "lock": "",
        "lock_name": "",
        "rows": 1,
        "waited_for": [],
        "error": "",
        "message": "",
        "pivot": False,
        "observed": "",
        "in_transaction": [],
        "condition": {},
        "wrote": {},
        "computed": {},
        "subquery": False,
    }
    return step | facts


def number_steps(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"until": number} | step for number, step in enumerate(steps, start=1)]


def make_write(process: int, table: str, **facts: object) -> dict[str, Any]:
    return make_step(process, table, kind="UPDATE", writes=[table], in_transaction=[process])


STEPS = number_steps(
    [
        make_step(1, "users"),  # nobody writes it
        make_step(1, "items"),
        make_write(2, "notes"),  # process 1 does not use it
        make_step(2, ""),
        make_write(2, "items"),
        make_write(1, "items") | {"waited_for": [2], "until": 7, "in_transaction": [1, 2]},
        make_step(2, "", in_transaction=[1]),
        make_step(1, "users", in_transaction=[1]),
        make_step(1, ""),
    ]
)


def test_only_the_steps_that_take_part_are_drawn() -> None:
    chosen = choose_steps(STEPS, frozenset())
    assert [(step["process"], step["kind"], step["until"]) for step in chosen] == [
        (1, "SELECT", 1),
        (2, "UPDATE", 2),
        (1, "UPDATE", 4),
        (2, "COMMIT", 4),
        (1, "COMMIT", 5),
    ]


def make_race(**facts: Any) -> Race:
    race = Race(
        names=[MARKUP, MARKUP],
        tests=[MARKUP],
        kind="rows",
        sentence=f"{MARKUP}\n\n{MARKUP}\n1\n2",
        order="12",
        command=MARKUP,
        statements=[{"process": 1, "sql": MARKUP, "result": MARKUP, "where": MARKUP}],
        steps=STEPS,
        accepted=MARKUP,
    )
    return replace(race, **facts)


def test_every_text_is_escaped() -> None:
    left = [Explored(names=[MARKUP, MARKUP], tests=[MARKUP], reason=MARKUP, limits=[MARKUP])]
    results = Discovery(
        requests=2, writing=1, explored=left, left=left, races=[make_race()], may_undo=[MARKUP]
    )
    html = make_page(results, MARKUP)
    assert "<img" not in html
    assert html.count("</script>") == 1
    assert html.count("&lt;img src=x") > 20


def test_races_are_sorted_by_view_and_accepted_ones_are_last() -> None:
    races = [
        make_race(names=["a", "a"], kind="answers", accepted=""),
        make_race(names=["a", "a"]),
        make_race(names=["b", "b"], kind="twice", accepted=""),
        make_race(names=["c", "d"], accepted=""),
        make_race(names=["b", "c"], accepted=""),
        make_race(names=["c", "e"], kind="errors", accepted=""),
    ]
    html = make_page(Discovery(races=races), "shop")
    headings = re.findall(r'name">\d\. (.*)</h2>', html)
    expected = ["c beside d", "c beside e", "b beside c", "b beside itself", "a beside itself"]
    assert headings == [*expected, "a beside itself"]
    assert "(accepted)" in html.split("</ol>")[0].rpartition("<li>")[2]


def test_a_race_is_shown_with_all_that_is_known_of_it() -> None:
    facts: dict[str, Any] = {"names": ["a", "b"], "tests": ["t", "u"], "also": ["v", "w"]}
    facts |= {"shared_by": ["c", "d"], "sentence": "n is 1.", "command": "pytest t", "accepted": ""}
    steps = number_steps([make_step(1, "items"), make_write(2, "items"), make_step(1, "users")])
    raises = make_race(**facts | {"kind": "errors", "sentence": "b raises E", "steps": steps})
    raises.shared_by = []
    explored = Explored(
        names=["a", "b"], tests=["t"], races=2, limits=["x", "y"], unconfirmed=["z"]
    )
    counts: dict[str, Any] = {"requests": 1, "writing": 1, "may_undo": ["a saves t"]}
    html = make_page(
        Discovery(**counts, explored=[explored], races=[make_race(**facts), raises]), "shop"
    )
    page = Page(html)
    referred = re.findall(r'(?:url\(|href="|aria-labelledby=")#?([^")]+)', html)
    assert len(page.ids) == len({*page.ids})
    assert {*referred} - {*page.ids} == set()
    assert {"main", "race-1-", "race-2-", "race-2-taken-narrow"} <= {*referred}
    for text in (
        "2 races in shop",
        "sent 1 request or calls, of which 1 writes rows.",
        "Of 1 pair, 1 was decided.",
        "rows (1) rows, mails or calls of Mocks end as in no serial order errors (1) an exception",
        "1. a beside b rows : rows, mails or",
        "✗ n is 1. Process 1 a Process 2 b Also in c, d Sent by t , u and 2 more Code",
        "⊘ b raises E",
        "Replay pytest t",
        "Left out are 4 steps on sessions",
        "waits for process 2",
        "resumes step 3",
        "A green frame is a transaction.",
        "Left out is 1 step on sessions",
        "a beside b 2 races Not confirmed: z Not covered: x; y",
        "Every request that writes was explored.",
        "What may undo a change",
        "a saves t",
    ):
        assert page.has(text), text
    assert html.count("Also in") == 1
    empty = Page(make_page(Discovery(requests=2, races=[raises]), "shop"))
    assert empty.has("1 race in shop")
    assert empty.has("sent 2 requests or calls, of which 0 write rows.")
    assert empty.has("Of 0 pairs, 0 were decided.")
    assert empty.has("Nothing was explored.")
    assert not empty.has("What may undo a change")


def test_without_a_race_the_page_says_within_which_bound() -> None:
    safe = [
        Explored(names=["a", "a"], tests=["t"], preemptions=2),
        Explored(names=["a", "b"], tests=["t"], preemptions=None),
    ]
    undecided = Explored(names=["b", "b"], tests=["t"], reason="it has no end")
    page = Page(make_page(Discovery(explored=[*safe, undecided]), "shop"))
    assert page.has("No race was found in shop")
    assert page.has("Of 3 pairs, 2 were decided:")
    assert page.has("1 safe in every schedule 1 safe in every schedule with at most 2 preemptions")
    assert page.has("b not decided: it has no end")


def test_a_run_that_decided_nothing_does_not_say_that_there_is_no_race() -> None:
    page = Page(make_page(Discovery(), "shop"))
    assert page.has("Nothing was decided in shop")
    assert not page.has("No race was found")
