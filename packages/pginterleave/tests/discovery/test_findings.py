"""What a discovery makes of answers and races: which are equal, accepted, and how they are said."""

from typing import Any

import pytest
from django.http import HttpResponse

from pginterleave.discovery.candidates import (
    Traffic,
    is_refusal_on_purpose,
    is_success,
    write_answer,
)
from pginterleave.discovery.findings import Discovery, Explored, Race
from pginterleave.discovery.report import (
    MAX_LENGTH,
    MAX_RESULT_LENGTH,
    Accepted,
    write_race,
    write_report,
)


def test_the_order_of_both_requests_does_not_matter() -> None:
    """Workers of pytest-xdist may find a race of a pair in either order."""
    results, other = Discovery(requests=2, writing=1), Discovery(requests=3, writing=2)
    for found, names in ((results, ["POST a", "POST b"]), (other, ["POST b", "POST a"])):
        found.explored.append(Explored(names=names, tests=names, limits=["a file"]))
        for _ in range(2):  # once is enough
            found.leave_out("t", names[0], "it is late")
        found.may_undo.append("POST a")
        facts: dict[str, Any] = {"tests": names, "statements": [], "steps": []}
        facts |= {"kind": "rows", "sentence": "", "order": "", "command": ""}
        found.races.append(Race(names=names, **facts))
    results.add_json(other.to_json())
    [race] = results.races
    assert race.shared_by == []
    assert (results.requests, results.writing, results.may_undo) == (5, 3, ["POST a"])
    assert [entry.names for entry in results.explored] == [
        ["POST a", "POST b"],
        other.races[0].names,
    ]
    assert [entry.names[0] for entry in results.left] == ["POST a", "POST b"]
    accepted = Accepted(["POST b beside POST a rows: nobody does both"])
    accepted.accept([race])
    assert race.accepted == "nobody does both"
    assert accepted.unused == []


def test_a_race_of_a_helper_is_listed_once_with_the_requests_that_share_it() -> None:
    results = Discovery()
    lines = [("POST a", "views.py:1", 1), ("POST b", "views.py:1", 2), ("POST c", "views.py:3", 1)]
    for name, where, value in lines:
        sql = f"UPDATE t SET a = {value}"
        facts: dict[str, Any] = {"order": "12", "command": "", "tests": ["t"], "steps": []}
        read = {"process": 1, "sql": "SELECT a", "result": "", "where": f"{name}.py:1"}
        facts["statements"] = [read, read | {"sql": sql, "where": where}]
        results.add_race(Race(names=[name, name], kind="rows", sentence="s", **facts))
    first, other = results.races
    assert (first.shared_by, other.shared_by) == (["POST b"], [])
    assert [*write_race(first)][-3:-1] == ["  the same lines in POST b", "  in t"]
    lines_of_both = ["POST a rows: harmless", "POST b rows: harmless, too"]
    for accepted_lines in (lines_of_both[:1], lines_of_both[1:], lines_of_both):
        Accepted(accepted_lines).accept(results.races)
        assert bool(first.accepted) is (accepted_lines == lines_of_both)
    assert results.list_failing() == [other]


def test_a_failing_line_tells_errors_apart_and_a_writing_line_the_other_races() -> None:
    """Two requests fail in one line after different writes; and what they read is no cause."""
    results = Discovery()
    for kind, result, number in (("errors", "!! E", 1), ("rows", "", 2)):
        for name in ("POST a", "POST b", "POST b"):
            texts = [
                ("INSERT INTO u (a)", f"{name}.py:1", ""),
                ("UPDATE t SET a", "t.py:1", result),
            ]
            texts.append(("SELECT a FROM t", f"{name}.py:2", ""))
            facts: dict[str, Any] = {"order": "12", "command": "", "tests": [name], "steps": []}
            statements = [{"sql": sql, "where": at, "result": r} for sql, at, r in texts]
            facts["statements"] = [{"process": 1, **each} for each in statements]
            results.add_race(Race(names=[name, name], kind=kind, sentence="s", **facts))
        assert len([race for race in results.races if race.kind == kind]) == number
    assert results.races[0].also == ["POST b"]


def test_a_report_is_short_and_v_lists_the_answers() -> None:
    """An accepted race is one line in both."""
    long = {"process": 1, "sql": "x" * MAX_LENGTH, "result": "y" * 400, "where": "v.py:1"}
    facts: dict[str, Any] = {"order": "12", "command": "pytest t", "tests": ["t"], "steps": []}
    facts |= {"statements": [long], "also": ["u", "v"], "kind": "answers"}
    texts = {name: f"{name} is wrong.\n\nmore" for name in ("POST a", "POST b")}
    races = [Race(names=[name, name], sentence=texts[name], **facts) for name in texts]
    accepted = Accepted(["POST b answers: harmless"])
    accepted.accept(races)
    results = Discovery(
        requests=2,
        writing=1,
        races=races,
        explored=[Explored(names=["POST a"], tests=["t"], races=2)],
    )
    results.leave_out("t", "POST c", "it is late")
    results.may_undo.append("POST a saves t")
    assert results.list_failing() == []
    counts, *lines = write_report(results, accepted, verbosity=0)
    assert (
        counts
        == "2 requests, of which 1 write. 1 explorations of what is new: 1 decided, 1 with a race."
    )
    meaning = "1 of kind answers, another answer than one after the other"
    assert lines == [
        "",
        f"{meaning}; -v lists them.",
        "Accepted: POST b answers: harmless",
        "Not explored: POST c in t: it is late",
        "May undo: POST a saves t",
    ]
    assert [*write_report(results, accepted, verbosity=1)][2:7] == [
        f"{meaning}:",
        "ANSWERS: POST a beside itself",
        "  POST a is wrong.",
        f"    1  {'x' * MAX_LENGTH} {'y' * MAX_RESULT_LENGTH}…  (v.py:1)",
        "  in t and 2 more",
    ]


@pytest.mark.parametrize(
    ("status", "headers", "answer", "succeeds", "is_on_purpose"),
    [
        (200, {}, "200", True, False),
        (302, {"Location": "/a/"}, "302 /a/", True, False),
        (400, {}, "400", False, False),
        (409, {}, "409", False, True),
        (429, {"Retry-After": "1"}, "429", False, False),
        (500, {}, "500", False, False),
        (503, {}, "503", False, False),
        (503, {"Retry-After": "1"}, "503 Retry-After", False, True),
    ],
)
def test_which_answers_are_refusals(
    status: int, headers: dict[str, str], answer: str, succeeds: bool, is_on_purpose: bool
) -> None:
    """Only of a refusal on purpose the same may succeed in a moment."""
    written = write_answer(HttpResponse(status=status, headers=headers))
    assert (written, is_success(written)) == (answer, succeeds)
    assert is_refusal_on_purpose(written) is is_on_purpose


@pytest.mark.parametrize(
    ("statements", "meet"),
    [
        (["UPDATE item SET n = 1"], True),
        (["SELECT n FROM item", "DELETE FROM cart"], True),
        (["SELECT n FROM stock", "DELETE FROM cart"], False),
        (["UPDATE django_session SET n = 1"], False),
    ],
)
def test_two_requests_meet_where_either_writes_what_the_other_uses(
    statements: list[str], meet: bool
) -> None:
    writer = Traffic("writer", "302", ("INSERT INTO item (n) VALUES (1)",))
    other = Traffic("other", "302", tuple(statements))
    assert writer.meets(other) is other.meets(writer) is meet
