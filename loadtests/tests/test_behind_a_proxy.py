"""The results of runs behind a proxy that repeats, drops, replaces or replays, over real HTTP.

With one worker and one thread no race is possible, and no run may report one. With 4 × 4, the
losses of a wrong strategy are still found.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loadtests.harness.serving import serving
from loadtests.tests.conftest import LAB, locust, result
from loadtests.tests.proxy import EVERY, Misdeed, drop, proxied, refuse, repeat, replace, replay

AT_ONCE = 3  # runs; the queue of the one thread holds all their users


class Attack(NamedTuple):
    """A run behind a proxy, and its expected sentence."""

    strategy: str
    misdeed: Misdeed
    sentence: str
    of: str = "/lab/"
    every: int = EVERY
    script: str = "lost_update"


BROKE = "wrong, and the invariant was violated"
TWICE = "took effect twice, as if a proxy had repeated them: this proves no race"
UNKNOWN = " unknown: "
# With one worker and one thread, where no race is possible.
ALONE = [
    Attack("naive", repeat, TWICE),
    Attack("naive", replace, UNKNOWN),
    Attack("update_returning", drop, "redirects was acknowledged", "/lab/resolve/", 1),
    Attack("naive", refuse, UNKNOWN),
    Attack("naive", replay, UNKNOWN),
    Attack("naive", drop, "wrong, BUT the invariant held"),
    Attack("check_first", repeat, TWICE, script="toctou"),
    Attack("check_first", replace, UNKNOWN, script="toctou"),
    Attack("check_first", replay, UNKNOWN, script="toctou"),
    # No link is beyond the quota. The repeated request decides whether one was made twice.
    Attack("count_then_insert", repeat, "", script="last_link"),
    Attack("get_then_create", repeat, TWICE, script="same_hour"),
    Attack("get_then_create", replace, UNKNOWN, script="same_hour"),
    Attack("get_then_create", drop, "wrong, BUT the invariant held", script="same_hour"),
]
MANY = [
    Attack("naive", repeat, BROKE),
    Attack("naive", replace, BROKE),
    Attack("check_first", replace, BROKE, script="toctou"),
    Attack("update_returning", drop, "right, and the invariant held"),
    Attack("update_returning", replay, UNKNOWN),
    Attack("on_conflict", drop, "right, and the invariant held", script="toctou"),
    Attack("count_then_insert", repeat, BROKE, script="last_link"),
    Attack("reservation", drop, "right, and the invariant held", script="last_link"),
    Attack("get_then_create", replace, BROKE, script="same_hour"),
    Attack("combined", drop, "right, and the invariant held", script="same_hour"),
]


def check(host: str, attacks: list[Attack], reports: Path, **options: str) -> None:
    """Run the attacks, some at the same time, each in another key space."""

    def run(attack: Attack) -> Any:
        own = reports / str(attacks.index(attack))
        with proxied(host, attack.misdeed, of=attack.of, every=attack.every) as url:
            asked = ["--host", url, "--strategy", attack.strategy, "--reports", str(own)]
            given = [f"--{name}={value}" for name, value in options.items()]
            locust(attack.script, *asked, *given)
        return result(own, attack.script, attack.strategy)

    with ThreadPoolExecutor(AT_ONCE) as executor:
        results = list(executor.map(run, attacks))
    for attack, found in zip(attacks, results, strict=True):
        assert attack.sentence in found["sentence"], attack
        assert found["requests"] >= EVERY  # otherwise there was no misdeed
        assert (found["lost"] > 0) == (attack.sentence is BROKE)


@pytest.mark.exhaustive
def test_without_a_race_none_is_seen(database_url: str, tmp_path: Path) -> None:
    with serving(DATABASE_URL=database_url, WORKERS="1", THREADS="1", **LAB) as service:
        check(service.url, ALONE, tmp_path, **{"users": "2", "run-time": "1s"})


@pytest.mark.exhaustive
def test_a_race_is_seen_behind_a_proxy(database_url: str, tmp_path: Path) -> None:
    with serving(DATABASE_URL=database_url, WORKERS="4", THREADS="4", **LAB) as service:
        check(service.url, MANY, tmp_path, **{"users": "8", "run-time": "5s"})
