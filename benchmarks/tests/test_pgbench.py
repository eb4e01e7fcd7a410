"""pgbench sends what a strategy sends."""

import subprocess
from typing import Any

import pytest
from django.db.models import F

from benchmarks import pgbench
from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.resolving import STRATEGIES
from shorturl.strategies import Verdict

RIGHT = [name for name, strategy in STRATEGIES.items() if strategy.verdict is Verdict.RIGHT]


@pytest.mark.django_db(transaction=True)
def test_the_script_of_one_statement() -> None:
    draw, update = pgbench.script(STRATEGIES["update_returning"]).splitlines()
    assert draw == r"\set n random(1, :keys)"
    assert update.startswith(
        'UPDATE "shorturl_shorturl" SET hits = hits + 1 WHERE key = \'k:n\' RETURNING "id", '
    )
    assert not ShortUrl.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_script_of_a_transaction_hands_on_what_it_has_read() -> None:
    _, begin, select, update, commit = pgbench.script(STRATEGIES["select_for_update"]).splitlines()
    assert (begin, commit) == ("BEGIN;", "COMMIT;")
    assert select.endswith(r"""."key" = 'k:n' LIMIT 21 FOR UPDATE \gset""")
    assert update == (
        'UPDATE "shorturl_shorturl" SET "hits" = :hits + 1 WHERE "shorturl_shorturl"."id" = :id;'
    )


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", RIGHT)
def test_every_script_counts_hits_of_every_key(name: str) -> None:
    program = pgbench.find()
    if program is None:
        pytest.skip(pgbench.MISSING)
    text = pgbench.script(STRATEGIES[name])
    for number in (1, 2, 3):
        operations.create("https://example.com/", key=f"k{number}")
    per_second = pgbench.run(program, text, keys=2, connections=2, seconds=1)
    hits = dict(ShortUrl.objects.values_list("key", "hits"))
    assert hits["k1"] > 0
    assert hits["k2"] > 0
    assert hits["k3"] == 0
    assert per_second > 0


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
    assert pgbench.run("pgbench", "", keys=1, connections=2, seconds=1) == 30 / 2
