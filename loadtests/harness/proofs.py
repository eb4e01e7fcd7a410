"""The cases that prove what a run found, each as lines: what happened, and to which requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import Ledger

PROOFS = 2  # shown of a run
TAKEN = re.compile(r"\(key\)=\((.+?)\)")  # as PostgreSQL names the key of a collision


def links_by_target(links: dict[str, StoredLink]) -> Counter[str]:
    """Return how many links lead to each target."""
    return Counter(link.target_url for link in links.values())


def second_links(links: dict[str, StoredLink]) -> Iterator[list[str]]:
    """Yield the targets that have several links, and the keys of these."""
    for target_url, count in links_by_target(links).items():
        if count > 1:
            keys = [key for key, link in links.items() if link.target_url == target_url]
            yield [f"{count} links lead to {target_url}, and one was asked for:", *keys]


def hits_and_visits(ledger: Ledger, links: dict[str, StoredLink]) -> Iterator[list[str]]:
    """Yield the links whose visits are not their hits, and requests that failed."""
    failed = [f"{request}: {kind}" for request, kind, _ in ledger.refusals[:PROOFS]]
    for key, link in links.items():
        if link.hits != link.visits:
            yield [f"{key} has {link.hits:,} hits and {link.visits:,} visits.", *failed]


def contradictions(ledger: Ledger, links: dict[str, StoredLink]) -> Iterator[list[str]]:
    """Yield answers that contradict each other or the database."""
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
