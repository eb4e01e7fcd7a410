"""Reconciling the ledger with the database: what was lost, counted twice, stolen or undone."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import UNAVAILABLE, Ledger, is_refusal
from loadtests.harness.measured_operations import OPERATIONS
from loadtests.harness.result import LoadResult, wilson

ONE_LINK_EACH = {"reusing", "idempotency"}  # operations that make no second link to a target
VISITS = {"recording_visits", "rolling_up"}  # operations after which each hit has one visit
PROOFS = 2  # shown of a run
TAKEN = re.compile(r"\(key\)=\((.+?)\)")  # in PostgreSQL's message about a collision
Links = dict[str, StoredLink]  # by key


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

    `links` are those of its key space. `seeds` are the keys made before the run. `limit` is the
    quota of each spender, whose number is the first part of a target's path. With `faults`, answers
    of an unavailable service leave the result conclusive. `reason` says why the run is
    inconclusive, if it is. Requests of unknown outcome make it inconclusive if they may hide a
    loss, and then its counts are lower bounds.
    """
    measured = partial(
        LoadResult,
        script,
        strategy,
        operation,
        verdict,
        errors=dict(ledger.errors.most_common()),
        failed=sum(count for kind, count in ledger.errors.items() if is_refusal(kind)),
        requests=ledger.sent,
        acknowledged=ledger.acknowledged,
        unknown=ledger.unknown,
        cpu=max(ledger.cpu.values(), default=0.0),
    )
    result, by_key = measured(), {link.key: link for link in links}
    _count_hits(result, ledger, by_key)
    _count_creates(result, ledger, by_key, set(seeds))
    _count_edits(result, ledger, by_key)
    if operation in ONE_LINK_EACH:
        result.extra = sum(count - 1 for count in _links_by_target(by_key).values())
    if limit is not None:
        # Counted in the database: a request repeated by a proxy must not exceed the quota either.
        made = Counter(link.target_url.split("/")[3] for link in by_key.values())
        result.extra = sum(max(0, count - limit) for count in made.values())
    if operation in VISITS:
        # Both numbers are from the database: a repeated or unanswered request makes one of each.
        result.missing += sum(max(0, link.hits - link.visits) for link in by_key.values())
        result.extra += sum(max(0, link.visits - link.hits) for link in by_key.values())
    result.lost = result.lost_hits + result.stolen + result.missing + result.extra
    result.of = ledger.redirects.total() + sum(map(len, ledger.creates.values()))
    if operation == "last_use":  # includes lost hits, as each lets a use be sold again
        result.lost = sum(
            max(0, ledger.redirects[key] - link.max_hits)
            for key, link in by_key.items()
            if link.max_hits
        )
    if operation in {"creating", "last_use"}:  # here a failure is a loss, elsewhere an error
        result.lost += result.failed
        result.of += result.failed
    if operation in VISITS:  # includes hits of requests without an answer
        result.of = sum(link.hits for link in by_key.values())
    result.share = result.lost / result.of if result.of else 0.0
    result.low, result.high = wilson(min(result.lost, result.of), result.of)
    if reason := reason or _inconclusive(result, ledger, faults=faults):
        return measured(reason=reason)
    result.reason = _open(result, ledger, by_key, faults=faults)
    if operation in ONE_LINK_EACH:
        cases = _second_links(by_key)
    elif operation in VISITS:
        cases = _hits_and_visits(ledger, by_key)
    else:
        cases = _contradictions(ledger, by_key)
    result.proofs = [*islice(cases, PROOFS)]
    return result


def _count_hits(result: LoadResult, ledger: Ledger, links: Links) -> None:
    # Two answers with the same number prove a lost hit, even if a hit of unknown outcome hides it.
    contradicted = Counter(claim.split(" ")[0] for claim, *_ in ledger.contradictions)
    for key in links.keys() | ledger.redirects.keys():
        counted = links[key].hits if key in links else 0
        acknowledged, unknown = ledger.redirects[key], ledger.unknown_redirects[key]
        result.lost_hits += max(0, acknowledged - counted, contradicted[key])
        result.doubled += max(0, counted - acknowledged - unknown)


def _count_creates(result: LoadResult, ledger: Ledger, links: Links, seeds: set[str]) -> None:
    for key, owners in ledger.creates.items():
        if key not in links:
            result.missing += len(owners)
        else:
            result.stolen += sum(target_url != links[key].target_url for target_url in owners)
    unknown = Counter(ledger.unknown_creates)
    for key, link in links.items():
        if key in seeds or key in ledger.creates:
            continue
        if unknown[link.target_url] > 0:
            unknown[link.target_url] -= 1
        else:
            result.doubled += 1  # no answer named this link


def _count_edits(result: LoadResult, ledger: Ledger, links: Links) -> None:
    # An edit without an answer may take effect after a later one that was acknowledged.
    unknown = {*ledger.unknown_edits}
    result.edits = ledger.edited
    result.undone = sum(count for seen, count in ledger.undone.items() if seen not in unknown)
    for key, target_url in ledger.edits.items():
        if target_url and key in links and links[key].target_url not in {target_url, *unknown}:
            result.undone += 1


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
            f"{result.doubled:,} requests took effect twice, as if a proxy had repeated them: "
            "this proves no race"
        )
    return ""


def _open(result: LoadResult, ledger: Ledger, links: Links, *, faults: bool) -> str:
    """Return why answers of unknown outcome leave the verdict open; empty if they do not."""
    answers = {
        kind: count
        for kind, count in result.errors.items()
        if kind[0].isdecimal() and not is_refusal(kind) and not (faults and kind in UNAVAILABLE)
    }
    if not answers or (result.raced if result.wrong else result.violated):
        return ""
    unknown = sum(answers.values())
    if not result.wrong and unknown <= ledger.unknown and not _may_hide(ledger, links):
        return ""
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in answers.items())
    lost = f"{OPERATIONS[result.operation].lost}: {result.lost:,} of {result.of:,}"
    plural = "" if unknown == 1 else "s"
    return f"{lost}; outcome of {unknown:,} request{plural} unknown: {kinds}"


def _may_hide(ledger: Ledger, links: Links) -> bool:
    """Return whether requests of unknown outcome may hide a lost hit or an undone edit.

    A hit that was counted without an answer may take the place of a lost one. Of a create without
    an answer, the database shows the link.
    """
    return bool(ledger.unknown_edits) or any(
        key not in links or links[key].hits < ledger.redirects[key] + unknown
        for key, unknown in ledger.unknown_redirects.items()
    )


def _unanswered(ledger: Ledger) -> str:
    """Return the number and kind of requests none of which was acknowledged; empty otherwise."""
    if ledger.unknown_redirects and not ledger.redirects:
        return f"{ledger.unknown_redirects.total():,} redirects"
    if ledger.unknown_creates and not ledger.creates:
        return f"{len(ledger.unknown_creates):,} creates"
    return "" if ledger.redirects or ledger.creates else f"{ledger.sent:,} requests"


# --- Proofs: a line that says what happened, and lines for the requests --------------------------


def _links_by_target(links: Links) -> Counter[str]:
    return Counter(link.target_url for link in links.values())


def _second_links(links: Links) -> Iterator[list[str]]:
    for target_url, count in _links_by_target(links).items():
        if count > 1:
            keys = [key for key, link in links.items() if link.target_url == target_url]
            yield [f"{count} links lead to {target_url}, and one was requested:", *keys]


def _hits_and_visits(ledger: Ledger, links: Links) -> Iterator[list[str]]:
    failed = [f"{request}: {kind}" for request, kind, _ in ledger.refusals[:PROOFS]]
    for key, link in links.items():
        if link.hits != link.visits:
            yield [f"{key} has {link.hits:,} hits and {link.visits:,} visits.", *failed]


def _contradictions(ledger: Ledger, links: Links) -> Iterator[list[str]]:
    for claim, first, second in ledger.contradictions:
        key, number = claim.split(" ")
        yield [f"Two redirects of {key} made the counter {number}:", first, second]
    for key, owners in ledger.creates.items():
        others = [owner for owner in owners if key in links and owner != links[key].target_url]
        if others:
            owner = links[key].target_url
            yield [f"Two creates were told that {key} is theirs:", owner, others[0]]
    for target_url, kind, message in ledger.refusals:
        taken = TAKEN.search(message)
        if taken and taken[1] in links:
            owner = links[taken[1]].target_url
            yield [f"Two creates drew {taken[1]}:", owner, f"{target_url}, answered {kind}"]
    for key, edited, seen in ledger.undone_cases:
        if seen not in ledger.unknown_edits:
            yield [
                f"An edit of {key} was undone:",
                f"it was acknowledged to lead to {edited}",
                f"and afterwards led to {seen}",
            ]
