"""The discovery in a small suite: what it finds there, and what it leaves as it was."""

import importlib.util
import re
import shlex

import pytest

from .conftest import Ran, RunSuite


@pytest.fixture(scope="module")
def plain(run_suite: RunSuite) -> Ran:
    return run_suite()


@pytest.fixture(scope="module")
def ran(run_suite: RunSuite) -> Ran:
    return run_suite("--interleave-requests", "--interleave-seconds=60", "--interleave-minutes=0")


def test_the_tests_end_as_without_the_option(plain: Ran, ran: Ran) -> None:
    """One of them asserts that it is in a transaction, and another counts queries."""
    assert plain.status == 0, plain.text
    assert plain.outcomes
    assert ran.outcomes == plain.outcomes


@pytest.mark.parametrize(
    ("names", "kind", "sentence"),
    [
        ("redeem", "rows", "shop_redemption (voucher_id = 1) has 2 rows"),
        ("use", "twice", "'400'"),
        ("register", "errors", "raises IntegrityError: duplicate key value violates unique"),
        ("grab", "answers", "'423'"),
        ("add_async", "rows", "is 11. One after the other, it is 12."),
        ("rename + reprice", "rows", "is 10. One after the other, it is 7."),
    ],
)
def test_a_race_of_each_kind_is_found(ran: Ran, names: str, kind: str, sentence: str) -> None:
    assert sentence in ran.races[names, kind]["sentence"]


@pytest.mark.parametrize("name", ["add", "grab_or_wait", "reprice", "log"])
def test_what_is_right_is_safe(ran: Ran, name: str) -> None:
    """Of `grab_or_wait` too: 503 with Retry-After is a refusal on purpose.

    `add` changes mails, a cache and a file, and `log` waits for nothing in Python.
    """
    entry = ran.explored[name]
    assert (entry["races"], entry["reason"]) == (0, "")
    assert entry["preemptions"] in (None, 2)


def test_every_exploration_is_decided(ran: Ran) -> None:
    assert [entry for entry in ran.results["explored"] if entry["reason"]] == []
    assert "look" not in ran.explored


def test_what_cannot_be_explored_is_named_with_the_reason(ran: Ran) -> None:
    assert ran.left == {
        ("test_alter", "POST reprice", "it changes the schema"),
        ("test_fail", "POST fail", "alone it answers LookupError"),
        ("test_fail", "POST stop", "alone it answers 503"),
        (
            "test_with_threads",
            "POST claim",
            "threads of its own send statements, such as those of a live server",
        ),
    }


def test_an_equal_request_of_another_test_is_not_explored_again(ran: Ran) -> None:
    """A second class and a function send what the first class has sent."""
    names = [entry["names"] for entry in ran.results["explored"]]
    assert names.count(["POST redeem", "POST redeem"]) == 1


def test_a_race_shows_the_statements_that_take_part_with_their_lines(ran: Ran) -> None:
    """Not the SELECT of the voucher, which nobody writes; a COMMIT if it comes later."""
    race = ran.races["redeem", "rows"]
    statements = [statement["sql"].split(" ")[0] for statement in race["statements"]]
    assert statements == ["SELECT", "INSERT", "SELECT", "INSERT", "COMMIT"]
    assert all(re.match(r"shop/views\.py:\d+", each["where"]) for each in race["statements"])
    assert len(race["steps"]) == len(race["order"])
    assert f"  {race['command']}\n" in ran.text


def test_what_a_whole_row_save_may_undo_is_listed_unless_a_race_confirms_it(ran: Ran) -> None:
    lines = ran.results["may_undo"]
    assert not any("POST reprice" in line for line in lines)
    [line] = [line for line in lines if "POST add_async" in line]
    assert line.startswith("POST rename saves shop_voucher with the value that it has read (shop")


def test_the_report_begins_with_the_worst_and_fails(ran: Ran) -> None:
    assert ran.status == 1
    kinds = re.findall(r"^(ROWS|ERRORS|TWICE|ANSWERS):", ran.text, re.MULTILINE)
    assert kinds == sorted(kinds, key=["ROWS", "ERRORS", "TWICE"].index)
    assert "of kind answers, another answer than one after the other; -v lists them." in ran.text
    assert re.search(r"^\[\d+ of \d+ requests, \d+ pairs, \d+ races\]", ran.text, re.MULTILINE)


def test_a_race_is_replayed_by_its_command(run_suite: RunSuite, ran: Ran) -> None:
    """Of a pair too, whose tests two workers of pytest-xdist would get."""
    workers = ["-n2"] if importlib.util.find_spec("xdist") else []
    for names, kind in (("redeem", "rows"), ("rename + reprice", "rows")):
        _, *arguments = shlex.split(ran.races[names, kind]["command"])
        replayed = run_suite(*arguments, *workers)
        assert replayed.status == 1
        sentence = ran.races[names, kind]["sentence"]
        assert f"{kind}: {sentence}\n\n" in replayed.text
        assert "process 1  " in replayed.text
