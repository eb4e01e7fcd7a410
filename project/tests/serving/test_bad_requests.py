"""Requests that are malformed, or that two servers could read differently: none is processed.

Each is sent unchanged to the running service, with both of gunicorn's parsers. A second request
that may be hidden in it would make a link.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec

import pytest

from loadtests.servers import OwnPostgres
from project.tests.serving.test_serving import NEW, Client, Served, create, postgres, served, sized

__all__ = ["postgres"]  # a fixture

LIMIT = 3  # links a day, from one address
ENVIRONMENT = {"BEHIND_PROXY": "on", "SHORTURL_PUBLIC_LINKS_PER_DAY": str(LIMIT)}
REFUSALS = {400, 404, 405, 408, 413, 414, 431, 501}  # not 429, by which a create would be one
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
LENGTH, CHUNKED, CLOSE = sized(NEW), b"Transfer-Encoding: chunked", b"Connection: close"
HIDDEN = create(LENGTH, CLOSE)
CHUNK = b"%x\r\n%s\r\n" % (len(NEW), NEW)
END = b"0\r\n\r\n"


def get(line: bytes, *fields: bytes) -> bytes:
    """Return a request with this first line, and without a body."""
    return b"\r\n".join([line, b"Host: localhost", CLOSE, *fields, b"", b""])


def create_with_coding(coding: bytes, body: bytes = CHUNK + END) -> bytes:
    """Return a create with this transfer coding."""
    return create(b"Transfer-Encoding: " + coding, CLOSE, body=body)


def create_with_length(length: bytes) -> bytes:
    """Return a create with this Content-Length."""
    return create(b"Content-Length: " + length, CLOSE)


def create_with_field(line: bytes) -> bytes:
    """Return a create that only this header field makes wrong."""
    return create(LENGTH, CLOSE, line)


def create_in_chunks(body: bytes) -> bytes:
    """Return a create with this body in chunks, with another request behind it."""
    return create(CHUNKED, b"X-Forwarded-For: 192.0.2.1", body=body) + HIDDEN


HOSTS = {
    "no host": HIDDEN.replace(b"Host", b"X-Host"),
    "two hosts": create_with_field(b"Host: localhost"),
    "another host, too": create_with_field(b"Host: other.example"),
    "an empty host": HIDDEN.replace(b"localhost", b""),
    "a host with a user": HIDDEN.replace(b"localhost", b"localhost@other.example"),
    "a host with a wrong port": HIDDEN.replace(b"localhost", b"localhost:x"),
    "a host in the target": get(b"GET http://other.example/login HTTP/1.1"),
}
LENGTHS = {
    "a length and chunks": create(b"Content-Length: 5", CHUNKED, body=END + HIDDEN),
    "chunks and a length": create(CHUNKED, b"Content-Length: 5", body=END + HIDDEN),
    "a length twice": create_with_field(LENGTH),
    "two lengths": create_with_field(b"Content-Length: 1"),
    "a negative length": create_with_length(b"-1"),
    "a length with a sign": create_with_length(b"+36"),
    "a length in Arabic": create_with_length("٣٦".encode()),
    "a length of 4000 digits": create_with_length(b"9" * 4000),
    "a length before a space": create(b"Content-Length : 36") + HIDDEN,
    "a length behind a space": create(b" Content-Length: 36") + HIDDEN,
}
CODINGS = {
    "identity": create_with_coding(b"identity", HIDDEN),
    "gzip": create_with_coding(b"gzip", HIDDEN),
    "chunked behind a vertical tab": create_with_coding(b"\x0bchunked"),
    "chunked, then identity": create_with_coding(b"chunked, identity"),
    "chunked twice": create(CHUNKED, CHUNKED, body=CHUNK + END),
    "chunked, folded": create_with_coding(b"\r\n chunked"),
    "chunked before a space": create(b"Transfer-Encoding : chunked", LENGTH) + HIDDEN,
    "chunked by HTTP/1.0": create_with_coding(b"chunked").replace(b"HTTP/1.1", b"HTTP/1.0"),
}
CHUNKS = {
    "a size that is none": create_in_chunks(b"g" + CHUNK + END),
    "a size behind a space": create_in_chunks(b" " + CHUNK + END),
    "no size": create_in_chunks(CHUNK[2:] + END),
    "a chunk without an end": create_in_chunks(CHUNK[:-2] + END),
    "a chunk that ends with LF": create_in_chunks(CHUNK[:-2] + b"\n" + END),
    "an extension with LF": create_in_chunks(b"24;a\nb" + CHUNK[2:] + END),
    "LF instead of the end": create_in_chunks(CHUNK + b"0\n\n"),
    "a length in the trailers": create_in_chunks(CHUNK + b"0\r\nContent-Length: 9\r\n\r\n"),
    "a coding in the trailers": create_in_chunks(
        CHUNK + b"0\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "too many trailers": create_in_chunks(CHUNK + b"0\r\n" + b"X: a\r\n" * 101 + b"\r\n"),
    "a request in the trailers": create_in_chunks(CHUNK + b"0\r\n" + HIDDEN),
}
FIELDS = {
    "a folded field": create_with_field(b"X: a\r\n b"),
    "LF in a value": create_with_field(b"X: a\nY: b"),
    "CR in a value": create_with_field(b"X: a\rY: b"),
    "NUL in a value": create_with_field(b"X: a\0b"),
    "a space behind a name": create_with_field(b"X : a"),
    "no name": create_with_field(b": a"),
    "no colon": create_with_field(b"X"),
    "too many fields": get(b"GET /healthz HTTP/1.1", *[b"X: a"] * 100),
    "too long a field": get(b"GET /healthz HTTP/1.1", b"X: " + b"a" * 9000),
    "a field without an end": b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 20_000,
    "LF everywhere": HIDDEN.replace(b"\r\n", b"\n"),
}
LINES = {
    "LF behind it": HIDDEN.replace(b"\r\n", b"\n", 1),
    "LF before it": b"\n" + HIDDEN,
    "a space before it": b" " + HIDDEN,
    "too long": get(b"GET /" + b"a" * 9000 + b" HTTP/1.1"),
    "without an end": b"GET /" + b"a" * 20_000,
    **{
        line.decode("latin-1"): get(line)
        for line in (
            b"GET /health z HTTP/1.1",
            b"GET\t/healthz\tHTTP/1.1",
            b"GET /healthz\0 HTTP/1.1",
            b"GET /healthz\xe9 HTTP/1.1",
            b"GET /healthz?\xe9 HTTP/1.1",
            b"GET * HTTP/1.1",
            b"GET",
            b"GET /healthz",
            b"GET /healthz HTTP/1.1 ",
            b"GET /healthz HTTP/0.9",
            b"GET /healthz HTTP/1.2",
            b"GET /healthz HTTP/2.0",
            b"GET /healthz HTTPS/1.1",
            b"get /healthz HTTP/1.1",
            b"G(T /healthz HTTP/1.1",
            b"TRACE /healthz HTTP/1.1",
            b"CONNECT other.example:443 HTTP/1.1",
            b"PRI * HTTP/2.0",
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2",
        )
    },
}
MALFORMED = {**HOSTS, **LENGTHS, **CODINGS, **CHUNKS, **FIELDS, **LINES}


@pytest.fixture(scope="module", params=["fast", "python"])
def service(request: pytest.FixtureRequest, postgres: OwnPostgres) -> Iterator[Served]:
    """A service with one of gunicorn's parsers."""
    if request.param == "fast" and not find_spec("gunicorn_h1c"):
        end = pytest.fail if os.environ.get("CI") else pytest.skip
        end("gunicorn_h1c is not installed, which needs a C compiler")
    with served(postgres, "--http-parser", request.param, THREADS="2", **ENVIRONMENT) as service:
        yield service


def read_statuses(service: Served, data: bytes) -> list[int]:
    """Return the statuses of all answers until the connection ends."""
    with closing(Client(service.service.url, data)) as client:
        received = b""
        with suppress(ConnectionError):
            while more := client.socket.recv(65_536):
                received += more
    return [int(status) for status in STATUS.findall(received)]


def test_the_parts_of_the_requests_are_right(service: Served) -> None:
    before = service.count_links()
    assert read_statuses(service, get(b"GET /healthz HTTP/1.1")) == [200]
    assert read_statuses(service, create_in_chunks(CHUNK + END)) == [201, 201]
    assert service.count_links() == before + 2


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=map(repr, MALFORMED))
def test_a_request_and_the_one_behind_it_are_refused(service: Served, malformed: bytes) -> None:
    before = service.count_links()
    (status,) = read_statuses(service, malformed)
    assert status in REFUSALS
    assert service.count_links() == before


def test_the_expect_header_changes_no_other_field(service: Served) -> None:
    """Above all not X-Forwarded-For, which decides whose quota is spent."""
    own = b"X-Forwarded-For: 10.%d.%d.1" % divmod(int(service.service.url.rpartition(":")[2]), 256)
    # At most one minute ends meanwhile, and the quota begins anew.
    statuses = [
        read_statuses(
            service, create(b"Expect: 100-continue, 9.9.%d.1" % number, own, LENGTH, CLOSE)
        )[-1]
        for number in range(2 * LIMIT + 1)
    ]
    assert statuses[:LIMIT] == [201] * LIMIT
    assert set(statuses) == {201, 429}
