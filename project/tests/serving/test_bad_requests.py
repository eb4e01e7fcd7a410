"""Malformed requests, and some that two servers could read differently: none is processed.

gunicorn has tests of its parsers. These show that the service's configuration leaves the parser as
strict as it is. A second request that may be hidden in the first one would make a link.
"""

import re
from contextlib import closing, suppress

import pytest

from project.tests.serving.conftest import NEW, Client, OwnService, make_create, make_length

REFUSALS = {400, 404, 405, 414, 431, 501}
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
LENGTH, CHUNKED, CLOSE = make_length(NEW), b"Transfer-Encoding: chunked", b"Connection: close"
HIDDEN = make_create(LENGTH, CLOSE)
CHUNK = b"%x\r\n%s\r\n" % (len(NEW), NEW)
END = b"0\r\n\r\n"
MALFORMED = {
    "two hosts": make_create(LENGTH, CLOSE, b"Host: other.example"),
    "an empty host": HIDDEN.replace(b"localhost", b""),
    "a host with a user": HIDDEN.replace(b"localhost", b"localhost@other.example"),
    "a host in the target": HIDDEN.replace(b"/api", b"http://other.example/api"),
    "a length and chunks": make_create(make_length(END), CHUNKED, body=END + HIDDEN),
    "two lengths": make_create(LENGTH, CLOSE, b"Content-Length: 1"),
    "a length with a sign": make_create(b"Content-Length: +36", CLOSE),  # NEW has 36 bytes
    "a length before a space": make_create(b"Content-Length : 36") + HIDDEN,
    "a coding that is not chunked": make_create(b"Transfer-Encoding: identity", body=HIDDEN),
    "chunked twice": make_create(CHUNKED, CHUNKED, body=CHUNK + END),
    "chunks by HTTP/1.0": make_create(CHUNKED, body=CHUNK + END).replace(b"/1.1", b"/1.0"),
    "a size that is none": make_create(CHUNKED, body=b"g" + CHUNK + END) + HIDDEN,
    "a chunk that ends with LF": make_create(CHUNKED, body=CHUNK[:-2] + b"\n" + END) + HIDDEN,
    "a request in the trailers": make_create(CHUNKED, body=CHUNK + b"0\r\n" + HIDDEN),
    "a folded field": make_create(LENGTH, CLOSE, b"X: a\r\n b"),
    "NUL in a value": make_create(LENGTH, CLOSE, b"X: a\0b"),
    "a space behind a name": make_create(LENGTH, CLOSE, b"X : a"),
    "too long a field": make_create(LENGTH, CLOSE, b"X: " + b"a" * 9000),
    "LF everywhere": HIDDEN.replace(b"\r\n", b"\n"),
    "too long a line": HIDDEN.replace(b"/api", b"/" + b"a" * 9000),
    "a byte beyond ASCII in the path": HIDDEN.replace(b"/api", b"/\xe9/api"),
    "another version of HTTP": HIDDEN.replace(b"/1.1", b"/2.0"),
    "CONNECT": HIDDEN.replace(b"POST /api/links", b"CONNECT other.example:443"),
}


def read_statuses(service: OwnService, data: bytes) -> list[int]:
    """Return the statuses of all answers until the connection ends."""
    with closing(Client(service.url, data)) as client:
        received = b""
        with suppress(ConnectionError):
            while more := client.socket.recv(65_536):
                received += more
    return [int(status) for status in STATUS.findall(received)]


def test_two_well_formed_requests_make_two_links(service: OwnService) -> None:
    """The malformed ones are made of their parts."""
    before = service.count_links()
    assert read_statuses(service, make_create(CHUNKED, body=CHUNK + END) + HIDDEN) == [201, 201]
    assert service.count_links() == before + 2


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_and_the_one_behind_it_are_refused(
    service: OwnService, malformed: bytes
) -> None:
    before = service.count_links()
    (status,) = read_statuses(service, malformed)
    assert status in REFUSALS
    assert service.count_links() == before
