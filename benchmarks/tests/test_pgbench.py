"""pgbench sends what a strategy sends."""

import subprocess
from typing import Any

import pytest
from django.db.models import F

from benchmarks import pgbench
from shorturl import creating, operations, resolving
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy, Verdict


def right(table: dict[str, Strategy[Any]]) -> list[str]:
    """Return the names of the right strategies."""
    return [name for name, strategy in table.items() if strategy.verdict is Verdict.RIGHT]


@pytest.mark.django_db(transaction=True)
def test_the_script_of_one_statement() -> None:
    script = pgbench.resolving_script(resolving.STRATEGIES["update_returning"])
    update = " ".join(script.split())
    assert update.startswith(
        "UPDATE \"shorturl_shorturl\" SET hits = hits + 1 WHERE key = 'k:n' AND deleted_at IS NULL "
    )
    assert update.count(";") == 1
    assert not ShortUrl.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_script_of_a_transaction_hands_on_what_it_has_read() -> None:
    script = pgbench.resolving_script(resolving.STRATEGIES["select_for_update"])
    begin, select, update, commit = script.splitlines()
    assert (begin, commit) == ("BEGIN;", "COMMIT;")
    assert select.endswith(r"""."key" = 'k:n') LIMIT 21 FOR UPDATE \gset""")
    assert update == (
        'UPDATE "shorturl_shorturl" SET "hits" = :hits + 1 WHERE "shorturl_shorturl"."id" = :id;'
    )


@pytest.mark.django_db(transaction=True)
def test_the_script_of_a_slotted_counter_draws_the_slot() -> None:
    script = pgbench.resolving_script(resolving.STRATEGIES["slotted_counter"])
    assert script.startswith("\\set slot random(1, 16)\n")
    assert "SELECT key, :slot, 1 FROM link" in script


@pytest.mark.django_db(transaction=True)
def test_the_script_of_a_create_that_knows_its_id() -> None:
    script = pgbench.creating_script(creating.STRATEGIES["permuted_sequence"])
    draw, insert = script.split(";\n", 1)
    assert draw == "SELECT nextval(pg_get_serial_sequence('shorturl_shorturl', 'id'))"
    assert "VALUES (:n, 'c:n', 'https://example.com/')" in insert
    assert not ShortUrl.objects.exists()


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", right(resolving.STRATEGIES))
def test_every_script_counts_hits_of_every_key(name: str) -> None:
    for number in (1, 2, 3):
        operations.create("https://example.com/", key=f"k{number}")
    script = pgbench.resolving_script(resolving.STRATEGIES[name])
    assert measured(script, "random") > 0
    hits = {link.key: link.total_hits for link in ShortUrl.objects.with_total_hits()}
    assert hits["k1"] > 0
    assert hits["k2"] > 0
    assert hits["k3"] == 0


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", right(creating.STRATEGIES))
def test_every_script_creates_links(name: str) -> None:
    assert measured(pgbench.creating_script(creating.STRATEGIES[name]), "new") > 0


def measured(script: str, keys: str) -> float:
    program = pgbench.find()
    if program is None:
        pytest.skip(pgbench.MISSING)
    found = pgbench.run(program, script, keys=keys, links=2, connections=2, seconds=1)
    assert found is not None
    return found


PRINTED = (
    "number of transactions actually processed: 1500\n"
    "tps = 1000.0 (including reconnection times)\n"
    "tps = 750.000000 (without initial connection time)\n"
)


@pytest.mark.django_db
def test_hits_and_not_transactions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 transactions in 2 seconds, most of which changed no row, made 30 hits."""

    def run(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        ShortUrl.objects.update(hits=F("hits") + 30)
        return subprocess.CompletedProcess(command, 0, PRINTED, "")

    monkeypatch.setattr(subprocess, "run", run)
    ShortUrl.objects.create(key="k1", target_url="https://example.com/", hits=1_000)

    def made(connections: int) -> float | None:
        return pgbench.run("pgbench", "", keys="one", links=1, connections=connections, seconds=1)

    assert made(2) == 30 / 2
    assert made(100_000) is None  # more than PostgreSQL admits
    monkeypatch.setattr(__name__ + ".PRINTED", PRINTED.splitlines()[0].replace("1500", "0"))
    assert made(2) is None
