"""Reconciling the ledger with the database: what was lost, counted twice, stolen or undone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from math import sqrt

from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import UNAVAILABLE, Ledger, is_refusal

NORMAL_95 = 1.959964  # the normal distribution's quantile for an interval of 95 %
PROOFS = 2
BUSY = 0.9  # of one core, which is all that one Locust process can use
ONE_LINK_EACH = {"reusing", "idempotency"}  # operations that make no second link to a target
VISITS = {"recording_visits", "rolling_up"}  # operations after which each hit has one visit
TAKEN = re.compile(r"\(key\)=\((.+?)\)")  # as PostgreSQL names the key of a collision


class ExitCode(IntEnum):
    """The exit code of a run."""

    AS_EXPECTED = 0
    UNEXPECTED = 1
    INCONCLUSIVE = 2


@dataclass
class LoadResult:
    """The result of a run.

    `verdict` is the one of the strategies' table. `lost` is the number of requests that the
    strategy harmed, out of `of`. They are acknowledged redirects that were not counted, creates
    that failed or whose key is not the client's, links beyond the one that was asked for or beyond
    a quota, hits without a visit (`missing`), or visits without a hit (`extra`). Where the outcome
    of requests is unknown, `lost` is a lower bound. `reason` says why the run is inconclusive, or
    is empty. With a reason, nothing is counted as lost, doubled or undone.
    """

    script: str
    strategy: str
    operation: str
    verdict: str
    lost: int = 0
    of: int = 0
    lost_hits: int = 0
    doubled: int = 0
    stolen: int = 0
    missing: int = 0
    extra: int = 0
    failed: int = 0
    undone: int = 0
    edits: int = 0
    requests: int = 0
    acknowledged: int = 0
    unknown: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    share: float = 0.0
    low: float = 0.0
    high: float = 0.0
    seconds: float = 0.0
    per_second: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    cpu: float = 0.0
    proofs: list[list[str]] = field(default_factory=list)
    reason: str = ""

    @property
    def violated(self) -> bool:
        """Whether the invariant was violated: every acknowledged request took effect, once."""
        return self.lost + self.doubled + self.undone + self.failed > 0

    @property
    def wrong(self) -> bool:
        """Whether the strategies' table says that this one violates the invariant."""
        return self.verdict == "wrong"

    @property
    def raced(self) -> bool:
        """Whether requests were harmed in a way that only a race explains.

        A redirect that failed is no race: anything can fail. A redirect that was counted twice is
        none either: a proxy may repeat a request. A repeated older edit may undo a newer one.
        """
        return self.lost > 0 or (self.undone > 0 and not self.doubled)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the run."""
        if self.reason:
            return ExitCode.INCONCLUSIVE
        expected = self.raced if self.wrong else not self.violated
        return ExitCode.AS_EXPECTED if expected else ExitCode.UNEXPECTED

    @property
    def busy(self) -> bool:
        """Whether the load generator may have been the bottleneck."""
        return self.cpu > BUSY


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share. It also holds for a share of 0 or 1.

    https://doi.org/10.1080/01621459.1927.10502953
    """
    if not of:
        return 0.0, 0.0
    share, squared = count / of, NORMAL_95**2
    middle = (share + squared / (2 * of)) / (1 + squared / of)
    half = NORMAL_95 * sqrt(share * (1 - share) / of + squared / (4 * of**2)) / (1 + squared / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def reconcile(
    ledger: Ledger,
    links: Iterable[StoredLink],
    *,
    script: str,
    strategy: str,
    operation: str,
    verdict: str,
    seeds: Iterable[str] = (),
    limit: int | None = None,
    faults: bool = False,
    reason: str = "",
) -> LoadResult:
    """Return the result of a run.

    `links` are those of its key space, `seeds` the keys that were made for the run and not by it.
    `limit` is the quota of each spender, whose number is the first part of a target's path.
    With `faults`, which are injected on purpose, answers that the service is unavailable leave the
    result conclusive. `reason` says why the run is inconclusive, if it is.
    """
    result = LoadResult(script, strategy, operation, verdict)
    by_key = {link.key: link for link in links}
    _count_hits(result, ledger, by_key)
    _count_creates(result, ledger, by_key, set(seeds))
    _count_edits(result, ledger, by_key)
    _measure(result, ledger)
    if operation in ONE_LINK_EACH:
        result.extra = sum(count - 1 for count in _links_by_target(by_key).values())
    if limit is not None:
        result.extra = _beyond(by_key, limit)
    if operation in VISITS:
        _count_visits(result, by_key)
    result.lost = result.lost_hits + result.stolen + result.missing + result.extra
    result.of = ledger.redirects.total() + sum(map(len, ledger.creates.values()))
    if operation == "creating":  # where a failure is the loss; a redirect that fails is an error
        result.lost += result.failed
        result.of += result.failed
    if operation == "last_use":  # a hit that is lost lets a use be sold again, and is one of these
        result.lost = sum(
            max(0, ledger.redirects[key] - link.max_hits)
            for key, link in by_key.items()
            if link.max_hits
        )
        result.lost += result.failed
        result.of += result.failed
    if operation in VISITS:  # also the hits of those who were not answered
        result.of = sum(link.hits for link in by_key.values())
    result.share = result.lost / result.of if result.of else 0.0
    result.low, result.high = wilson(min(result.lost, result.of), result.of)
    if operation in ONE_LINK_EACH:
        cases = _second_links(by_key)
    elif operation in VISITS:
        cases = _hits_and_visits(ledger, by_key)
    else:
        cases = _proofs(ledger, by_key)
    result.proofs = [*islice(cases, PROOFS)]
    if reason := reason or _inconclusive(result, ledger, faults=faults):
        result = LoadResult(script, strategy, operation, verdict, reason=reason)
        _measure(result, ledger)
    return result


def _count_hits(result: LoadResult, ledger: Ledger, links: dict[str, StoredLink]) -> None:
    # Two answers with the same number prove a lost hit, even if a hit of unknown outcome hides it.
    contradicted = Counter(claim.split(" ")[0] for claim, *_ in ledger.contradictions)
    for key in links.keys() | ledger.redirects.keys():
        counted = links[key].hits if key in links else 0
        acknowledged, unknown = ledger.redirects[key], ledger.unknown_redirects[key]
        result.lost_hits += max(0, acknowledged - counted, contradicted[key])
        result.doubled += max(0, counted - acknowledged - unknown)


def _count_visits(result: LoadResult, links: dict[str, StoredLink]) -> None:
    # Both numbers are the database's: a request that is repeated or not answered makes one of each.
    for link in links.values():
        result.missing += max(0, link.hits - link.visits)
        result.extra += max(0, link.visits - link.hits)


def _count_creates(
    result: LoadResult, ledger: Ledger, links: dict[str, StoredLink], seeds: set[str]
) -> None:
    for key, owners in ledger.creates.items():
        if key not in links:
            result.missing += len(owners)
        elif key not in ledger.edits:
            result.stolen += sum(target_url != links[key].target_url for target_url in owners)
    unknown = Counter(ledger.unknown_creates)
    for key, link in links.items():
        if key in seeds or key in ledger.creates:
            continue
        if unknown[link.target_url] > 0:
            unknown[link.target_url] -= 1
        else:
            result.doubled += 1  # no answer has told of this link


def _links_by_target(links: dict[str, StoredLink]) -> Counter[str]:
    return Counter(link.target_url for link in links.values())


def _beyond(links: dict[str, StoredLink], limit: int) -> int:
    # Counted in the database: a request that a proxy repeats must not exceed the quota either.
    made = Counter(link.target_url.split("/")[3] for link in links.values())
    return sum(max(0, count - limit) for count in made.values())


def _count_edits(result: LoadResult, ledger: Ledger, links: dict[str, StoredLink]) -> None:
    # An edit without an answer may take effect later, after one that was acknowledged.
    unknown = {*ledger.unknown_edits}
    result.edits = ledger.edited
    result.undone = sum(count for seen, count in ledger.undone.items() if seen not in unknown)
    for key, target_url in ledger.edits.items():
        if target_url and key in links and links[key].target_url not in {target_url, *unknown}:
            result.undone += 1


def _measure(result: LoadResult, ledger: Ledger) -> None:
    result.errors = dict(ledger.errors.most_common())
    result.failed = sum(count for kind, count in ledger.errors.items() if is_refusal(kind))
    result.requests = ledger.sent
    result.acknowledged = ledger.acknowledged
    result.unknown = ledger.unknown
    result.cpu = max(ledger.cpu.values(), default=0.0)


def _inconclusive(result: LoadResult, ledger: Ledger, *, faults: bool) -> str:
    """Return why the result is inconclusive; empty when it is not."""
    if not ledger.sent:
        return "no request was sent"
    if not result.failed and (unanswered := _unanswered(ledger)):
        return f"none of the {unanswered} was acknowledged"
    unsent = sum(count for kind, count in ledger.errors.items() if kind.startswith("not sent"))
    if unsent and not faults:
        return f"the service became unavailable: {unsent:,} connections were refused"
    if result.raced if result.wrong else result.violated:
        return ""
    if result.doubled:
        return (
            f"{result.doubled:,} requests took effect twice, as behind a proxy that repeats them: "
            "that shows no race"
        )
    unexplained = {
        kind: count
        for kind, count in result.errors.items()
        if kind[0].isdecimal() and not is_refusal(kind) and not (faults and kind in UNAVAILABLE)
    }
    if unexplained:
        kinds = ", ".join(f"{count:,} × {kind}" for kind, count in unexplained.items())
        return f"it is unknown what became of the requests with other answers: {kinds}"
    return ""


def _unanswered(ledger: Ledger) -> str:
    """Return which requests there were, if all of a kind were without the answer asked for."""
    creates = sum(map(len, ledger.creates.values()))
    if ledger.unknown_redirects and not ledger.redirects:
        return f"{ledger.unknown_redirects.total():,} redirects"
    if ledger.unknown_creates and not creates:
        return f"{len(ledger.unknown_creates):,} creates"
    return "" if ledger.redirects or creates else f"{ledger.sent:,} requests"


def _second_links(links: dict[str, StoredLink]) -> Iterator[list[str]]:
    for target_url, count in _links_by_target(links).items():
        if count > 1:
            keys = [key for key, link in links.items() if link.target_url == target_url]
            yield [f"{count} links lead to {target_url}, and one was asked for:", *keys]


def _hits_and_visits(ledger: Ledger, links: dict[str, StoredLink]) -> Iterator[list[str]]:
    failed = [f"{request}: {kind}" for request, kind, _ in ledger.refusals[:PROOFS]]
    for key, link in links.items():
        if link.hits != link.visits:
            yield [f"{key} has {link.hits:,} hits and {link.visits:,} visits.", *failed]


def _proofs(ledger: Ledger, links: dict[str, StoredLink]) -> Iterator[list[str]]:
    """Yield cases, each as the lines that prove it."""
    for claim, first, second in ledger.contradictions:
        key, number = claim.split(" ")
        yield [f"Two redirects of {key} made the counter {number}:", first, second]
    for key, owners in ledger.creates.items():
        others = [owner for owner in owners if key in links and owner != links[key].target_url]
        if others and key not in ledger.edits:
            owner = links[key].target_url
            yield [f"Two creates were told that {key} is theirs:", owner, others[0]]
    for target_url, kind, message in ledger.refusals:
        taken = TAKEN.search(message)
        if taken and taken[1] in links:
            owner = links[taken[1]].target_url
            yield [f"Two creates drew {taken[1]}:", owner, f"{target_url}, answered {kind}"]
    for key, edited, seen in ledger.undone_cases:
        if seen in ledger.unknown_edits:
            continue
        yield [
            f"An edit of {key} was undone:",
            f"it was acknowledged to lead to {edited}",
            f"and afterwards led to {seen}",
        ]
