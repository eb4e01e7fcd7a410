"""The model of `manage.py sizing`, against what was measured."""

import re

import pytest
from django.core.management import CommandError, call_command

from project import sizing
from project.tests.conftest import ROOT


def measured(row: str, keys: str, connections: int = 16) -> list[str]:
    """Return the cells of a row of docs/benchmarks.md."""
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    (line,) = re.findall(rf"^\| {row} +\| {keys} +\| +{connections} \|.*$", text, re.MULTILINE)
    return [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]


def test_the_processor_times_are_those_of_the_benchmark() -> None:
    redirect, create = measured("service", "random of 10,000"), measured("on_conflict", "new")
    recording = measured("service with visits", "random of 10,000")
    assert redirect[7:9] == [str(sizing.REDIRECT_WORKER), str(sizing.REDIRECT_POSTGRES)]
    assert recording[7:9] == [str(sizing.RECORDING_WORKER), str(sizing.RECORDING_POSTGRES)]
    assert create[7:9] == [str(sizing.CREATE_WORKER), str(sizing.CREATE_POSTGRES)]
    assert measured("update_returning", "one key of 10,000")[9] == str(sizing.ROW_RATE)


@pytest.mark.parametrize(
    ("row", "keys", "connections", "of"),
    [
        ("service", "random of 10,000", 64, "redirects"),
        ("service with visits", "random of 10,000", 64, "visits"),
        ("on_conflict", "new", 64, "creates"),
    ],
)
def test_measured_points_are_within_a_third(row: str, keys: str, connections: int, of: str) -> None:
    """On 2 cores, which the load generator and what writes ahead had a share of, too.

    The processor times are those with 16 connections, and the rates those with 64.
    """
    rate = float(measured(row, keys, connections)[3])
    redirects, creates = (0, rate) if of == "creates" else (rate, 0)
    busy = sum(sizing.cores(redirects, creates, recording=of == "visits"))
    assert 2 / 1.5 < busy < 2


@pytest.mark.django_db(transaction=True)
def test_the_bytes_are_those_that_it_measures(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sizing", "--measure")
    found = [float(each) for each in re.findall(r" (\d+)", capsys.readouterr().out)]
    expected = [sizing.ROW_BYTES, sizing.INDEX_BYTES, sizing.HIT_WAL, sizing.CREATE_WAL]
    expected += [sizing.VISIT_BYTES, sizing.VISIT_INDEX_BYTES, sizing.VISIT_WAL]
    assert found == pytest.approx(expected, rel=0.25)


def test_what_grows_and_what_is_first(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sizing", "--redirects", "100000", "--links", "1e9")
    assert "first        the write-ahead log" in capsys.readouterr().out
    machine = sizing.Machine()
    small = sizing.sizing(1_000, 1e6, 10, machine)
    assert (small.service_machines, small.shards) == (1, 1)
    # All pages are written whole after each checkpoint, and never more than all of them.
    pages = 1e6 * sizing.ROW_BYTES
    assert sizing.full_page_images(1e6, pages) == pytest.approx(pages / sizing.CHECKPOINT, rel=0.01)
    assert sizing.sizing(1e5, 1e9, 1e3, machine).shards > 1


@pytest.mark.parametrize(
    "option", ["--redirects=0", "--links=many", "--visits=1e16", "--cores=0.5"]
)
def test_what_is_no_number_is_told_one_that_is(option: str) -> None:
    expected = "is not a number above 0 and up to 1e.15, for example 1e9|is not a whole number, 1"
    with pytest.raises(CommandError, match=expected):
        call_command("sizing", option)


def test_a_small_load_is_shown_as_it_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("sizing", "--redirects", "2.5", "--visits", "0.5")
    said = "2.5 redirects and 0.025 creates per second, 1,000,000 links with 0.5 rows of visits"
    assert capsys.readouterr().out.startswith(said)


def test_the_document_says_how_much_visits_take() -> None:
    text = (ROOT / "docs" / "scaling.md").read_text()
    machine = sizing.Machine()
    without, with_visits = (
        sizing.sizing(1_000, 1e9, 10, machine, visits=rows).disk for rows in (0, 10)
    )
    assert f"they take {with_visits / without - 1:.0f} times what the links take" in text
    assert f"(`SHORTURL_VISITS=off`) it is {without / 1e9:.0f} GB" in text
