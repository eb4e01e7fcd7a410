"""The way to Django's threads: bodies that arrive or are refused, and how answers are sent."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Event
from typing import Any

import pytest
from django.http import HttpResponse, StreamingHttpResponse

from project.serving import bridge as bridge_module
from project.serving.bridge import (
    Bridge,
    Message,
    Receive,
    Refused,
    Response,
    convert_to_asgi,
    send_response,
)
from project.tests.conftest import TIMEOUT

# The end of a response looks at the connection, which another test may have opened.
pytestmark = pytest.mark.django_db

CHUNKED = (b"transfer-encoding", b"chunked")
ROUNDS = 100  # of the event loop: many times as many as a request needs until it waits


def echo(environ: dict[str, Any], start_response: Any) -> HttpResponse:
    return HttpResponse(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))


def scope(*headers: tuple[bytes, bytes], path: str = "/") -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


def sized(length: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % length


def make_receive(*parts: bytes, ends: bool = True) -> Receive:
    """Return a receive() with these parts, and the end or a silence after the last one."""
    waiting = [*parts]

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting) or not ends}

    return receive


async def start_requests(*requests: Awaitable[Any]) -> "list[asyncio.Future[Any]]":
    """Start requests whose bodies stop arriving, and return when they wait."""
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(request) for request in requests]
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    return tasks


def run(test: Callable[[Bridge], Awaitable[None]]) -> None:
    """Run a test with a bridge, which then has no bytes of bodies left.

    Raises TimeoutError where a limit of the bridge is missing.
    """

    async def with_bridge() -> None:
        bridge = Bridge(echo, threads=1)
        await test(bridge)
        assert bridge.bodies_bytes == 0

    asyncio.run(asyncio.wait_for(with_bridge(), TIMEOUT))


@pytest.fixture(autouse=True)
def limit_bodies_to_nine_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each body, and all bodies of a worker together, to 9 bytes."""
    monkeypatch.setattr(bridge_module, "MAX_BODY_BYTES", 9)
    monkeypatch.setattr(bridge_module, "MAX_BODIES_BYTES", 9)


@pytest.mark.parametrize("header", [sized(9), CHUNKED])
def test_a_body_that_has_not_arrived_takes_no_memory(header: tuple[bytes, bytes]) -> None:
    """64 requests announce 9 bytes each and send none.

    The limit of all bodies is 9, and another request still fits.
    """

    async def test(bridge: Bridge) -> None:
        silent = await start_requests(
            *(bridge.answer(scope(sized(9)), make_receive()) for _ in range(64))
        )
        answer = await bridge.answer(scope(header), make_receive(b"1234", b"56789"))
        assert answer.body == b"123456789"
        for task in silent:
            task.cancel()

    run(test)


def test_a_body_that_exceeds_the_limit_of_all_bodies_is_a_503() -> None:
    """Five of nine bytes have arrived in one request, so four are left for the others."""

    async def test(bridge: Bridge) -> None:
        half = bridge.answer(scope(sized(9)), make_receive(b"12345", ends=False))
        (waiting,) = await start_requests(half)
        with pytest.raises(Refused) as refused:
            await bridge.answer(scope(sized(5)), make_receive(b"12345"))
        assert refused.value.status == 503
        assert (await bridge.answer(scope(sized(4)), make_receive(b"1234"))).body == b"1234"
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (await bridge.answer(scope(sized(9)), make_receive(b"123456789"))).status == 200

    run(test)


def test_half_a_body_whose_client_leaves_is_not_processed() -> None:
    messages = [{"type": "http.request", "body": b"1234", "more_body": True}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def test(bridge: Bridge) -> None:
        with pytest.raises(Refused):
            await bridge.answer(scope(sized(9)), receive)

    run(test)


def test_a_thread_is_not_free_while_django_works_for_a_client_that_has_left() -> None:
    django_may_answer = Event()

    def answer_late(environ: dict[str, Any], start_response: Any) -> HttpResponse:
        assert django_may_answer.wait(TIMEOUT)
        return echo(environ, start_response)

    async def test(bridge: Bridge) -> None:
        bridge.django = answer_late
        (request,) = await start_requests(bridge.answer(scope(sized(1)), make_receive(b"1")))
        request.cancel()
        await start_requests()
        assert request.cancelled()
        assert bridge.free_threads.locked()
        django_may_answer.set()
        await bridge.free_threads.acquire()

    run(test)


@pytest.mark.parametrize("length", [{}, {"Content-Length": "1"}])  # a view may have set it
def test_a_response_of_django_is_read_and_closed_and_has_one_length(length: dict[str, str]) -> None:
    """Its end closes a file, and tells Django to check the connection to PostgreSQL."""
    response = HttpResponse(b"x", status=201, headers={"X-A": "é", **length})
    response.set_cookie("a", "1", httponly=True)
    response.set_cookie("b", "2")
    status, headers, body = convert_to_asgi(response)
    assert (status, body, response.closed) == (201, b"x", True)
    values = [(name, value) for name, value in headers if name != b"content-type"]
    cookies = [(b"set-cookie", b"a=1; HttpOnly; Path=/"), (b"set-cookie", b"b=2; Path=/")]
    assert sorted(values) == [(b"content-length", b"1"), *cookies, (b"x-a", b"\xe9")]


def test_a_response_that_fails_while_it_is_read_is_closed() -> None:
    response = StreamingHttpResponse(1 / number for number in (1, 0))
    with pytest.raises(ZeroDivisionError):
        convert_to_asgi(response)
    assert response.closed


@pytest.mark.parametrize(
    ("reads", "received"),  # the messages that the client reads: the start, and parts of 4 bytes
    [(9, b"0123456789"), (3, b"01234567")],
    ids=["all", "two of three parts"],
)
def test_an_answer_whose_client_stops_reading_is_given_up(
    monkeypatch: pytest.MonkeyPatch, reads: int, received: bytes
) -> None:
    monkeypatch.setattr(bridge_module, "PART_BYTES", 4)
    monkeypatch.setattr(bridge_module, "SEND_TIMEOUT", 0.01)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        if len(sent) >= reads:
            await asyncio.Event().wait()
        sent.append(message)

    async def test(_: Bridge) -> None:
        with suppress(TimeoutError):
            await send_response(Response(200, [], b"0123456789"), send)

    run(test)
    start, *parts = sent
    assert start["status"] == 200
    assert b"".join(part.get("body", b"") for part in parts) == received
    has_ended = not parts[-1].get("more_body", False)
    assert has_ended == (received == b"0123456789")
