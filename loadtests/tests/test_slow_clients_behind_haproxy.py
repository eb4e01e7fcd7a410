"""Slow clients of a real HAProxy take no redirect's place, and a long target passes through it."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg2
import pytest

from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import HAPROXY, own_haproxy
from loadtests.harness.serving import NO_REFUSALS, serving

CLIENTS = 400  # more than the places of one machine, and those that may wait for them
ASKED = 20
# The longest target that a link can have: 23,780 bytes, percent-encoded.
PREFIX = "https://example.com/"
TARGET = PREFIX + "\N{BICYCLE}" * (2_000 - len(PREFIX))
LINKS = """
    INSERT INTO shorturl_shorturl (key, target_url, hits, created_at)
    VALUES ('spring', 'https://example.com/', 0, now()), ('long', %s, 0, now())
"""
POST = b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /static/ninja/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = {
    "half a body": POST + b"Content-Length: 60\r\n\r\n{",
    "a full buffer": POST + b"Content-Length: 60000\r\n\r\n" + b" " * 40_000,
    "half a body behind a long header": POST
    + b"X: %s\r\n" % (b"a" * 8_000) * 3
    + b"Content-Length: 12000\r\n\r\n"
    + b" " * 11_000,
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{",
    "no reading": GET,
}


@pytest.fixture(scope="module")
def proxied() -> Iterator[str]:
    """The address of a HAProxy before a service with its default limits, and two links."""
    if not HAPROXY:
        pytest.skip("HAProxy is not installed")
    with own_postgres() as postgres, ExitStack() as stack:
        service = stack.enter_context(serving(DATABASE_URL=postgres.url, **NO_REFUSALS))
        with closing(psycopg2.connect(postgres.url)) as session:
            session.cursor().execute(LINKS, [TARGET])
            session.commit()
        yield urlsplit(stack.enter_context(own_haproxy(service.url))).netloc


def ask(proxied: str, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    with closing(HTTPConnection(proxied, timeout=30)) as client:
        client.request(method, path, body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        answer.read()
        return answer.status, answer.headers


@pytest.mark.parametrize("data", SLOW.values(), ids=SLOW)
def test_slow_clients_take_no_place_of_others(proxied: str, data: bytes) -> None:
    host, _, port = proxied.partition(":")
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            client.sendall(data)
        body = json.dumps({"target_url": "https://example.com/"})
        told = [ask(proxied, "GET", "/spring")[0] for _ in range(ASKED)]
        told += [ask(proxied, "POST", "/api/links", body)[0] for _ in range(ASKED)]
    assert told == [302] * ASKED + [201] * ASKED


def test_the_longest_location_passes(proxied: str) -> None:
    status, headers = ask(proxied, "GET", "/long")
    assert (status, headers["Location"]) == (302, quote(TARGET, safe="/:"))
