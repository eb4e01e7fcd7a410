"""The way to Django's threads: bodies that arrive or are refused, and how answers are sent."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from project.serving import bridge
from project.serving.bridge import Bridge, Message, Receive, Refused, Response, Send

CHUNKED = (b"transfer-encoding", b"chunked")
STEPS = 10  # rounds of the event loop, more than a request needs until it waits


class Answer(list[bytes]):
    """A response of a WSGI application."""

    def close(self) -> None: ...


def echo(environ: dict[str, Any], start_response: Any) -> Answer:
    start_response("200 OK", [])
    return Answer([environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))])


def new_bridge(**options: Any) -> Bridge:
    return Bridge(echo, **{"threads": 1, "queue_timeout": 10, **options})


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


def sends(*parts: bytes, ends: bool = True) -> Receive:
    """Return a receive() with these parts, and the end or a silence after the last one."""
    waiting = [*parts]

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting) or not ends}

    return receive


async def begin(*requests: Awaitable[Any]) -> "list[asyncio.Future[Any]]":
    """Start requests whose bodies stop arriving, and return when they wait."""
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(request) for request in requests]
    for _ in range(STEPS):
        await asyncio.sleep(0)
    return tasks


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


@pytest.mark.parametrize("header", [sized(9), CHUNKED])
def test_a_body_that_has_not_arrived_takes_no_room(
    monkeypatch: pytest.MonkeyPatch, header: tuple[bytes, bytes]
) -> None:
    monkeypatch.setattr(bridge, "MAX_BODIES_BYTES", 9)

    async def test() -> None:
        way = new_bridge()
        silent = await begin(*(way.answer(scope(sized(9)), sends()) for _ in range(64)))
        assert (await way.answer(scope(header), sends(b"1234", b"56789"))).body == b"123456789"
        for task in silent:
            task.cancel()

    run(test)


def test_a_body_beyond_all_that_a_worker_may_have_is_a_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "MAX_BODIES_BYTES", 9)

    async def test() -> None:
        way = new_bridge()
        halves = await begin(way.answer(scope(sized(9)), sends(b"12345", ends=False)))
        with pytest.raises(Refused) as refused:
            await way.answer(scope(sized(5)), sends(b"12345"))
        assert refused.value.args == bridge.BUSY
        assert (await way.answer(scope(sized(4)), sends(b"1234"))).body == b"1234"
        halves[0].cancel()
        await asyncio.wait(halves)
        assert (await way.answer(scope(sized(9)), sends(b"123456789"))).status == 200
        assert way.bodies_bytes == 0

    run(test)


@pytest.mark.parametrize("header", [sized(10), CHUNKED])
def test_a_body_that_is_too_long_is_received_and_refused(
    monkeypatch: pytest.MonkeyPatch, header: tuple[bytes, bytes]
) -> None:
    monkeypatch.setattr(bridge, "MAX_BODY_BYTES", 9)

    async def test() -> None:
        way, receive = new_bridge(), sends(b"12345", b"67890", b"more")
        with pytest.raises(Refused) as refused:
            await way.answer(scope(header), receive)
        assert refused.value.args == bridge.TOO_LONG
        assert way.bodies_bytes == 0
        (silent,) = await begin(receive())
        assert not silent.done()  # all parts were received
        silent.cancel()

    run(test)


@pytest.mark.parametrize(
    ("header", "answer"), [(sized(9), bridge.TOO_SLOW), (sized(10), bridge.TOO_LONG)]
)
def test_a_body_that_does_not_arrive_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, header: tuple[bytes, bytes], answer: Any
) -> None:
    monkeypatch.setattr(bridge, "MAX_BODY_BYTES", 9)
    monkeypatch.setattr(bridge, "BODY_TIMEOUT", 0.01)

    async def test() -> None:
        with pytest.raises(Refused) as refused:
            await new_bridge().answer(scope(header), sends(b"1", ends=False))
        assert refused.value.args == answer

    run(test)


def test_an_error_before_the_thread_occupies_none() -> None:
    async def test() -> None:
        way = new_bridge()
        with pytest.raises(UnicodeDecodeError):
            await way.answer({**scope(), "query_string": b"\xe9"}, sends())
        assert (await way.answer(scope(), sends())).status == 200

    run(test)


@pytest.mark.parametrize(
    ("path", "refusal", "kind"),
    [
        ("/api/links", bridge.BUSY, "application/json"),
        ("/api", bridge.TOO_LONG, "application/json"),
        ("/", bridge.TOO_SLOW, "text/html; charset=utf-8"),
        ("/spring", bridge.NO_HOST, "text/html; charset=utf-8"),
    ],
)
def test_a_refusal_is_json_or_a_page(path: str, refusal: Any, kind: str) -> None:
    status, detail = refusal
    response = bridge.refusal(scope(path=path), status, detail)
    headers = {name.decode(): value.decode() for name, value in response.headers}
    assert (response.status, headers["content-type"]) == (status, kind)
    assert headers["content-length"] == str(len(response.body))
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert ("retry-after" in headers) is (status == 503)
    assert (headers.get("connection") == "close") is (status in (408, 413))
    if path.startswith("/api"):
        assert json.loads(response.body) == {"detail": detail}
    else:
        assert detail in response.body.decode()
    assert bridge.refusal({**scope(path=path), "method": "HEAD"}, status, detail).body == b""


def client(sent: list[Message], reads: int) -> Send:
    """Return a send() to a client that stops reading after so many messages."""

    async def send(message: Message) -> None:
        if len(sent) >= reads:
            await asyncio.Event().wait()
        sent.append(message)

    return send


@pytest.mark.parametrize(("reads", "complete"), [(9, True), (3, False)])
def test_an_answer_whose_client_stops_reading_is_given_up(
    monkeypatch: pytest.MonkeyPatch, reads: int, *, complete: bool
) -> None:
    monkeypatch.setattr(bridge, "PART_BYTES", 4)
    monkeypatch.setattr(bridge, "SEND_TIMEOUT", 0.01)
    sent: list[Message] = []

    async def test() -> None:
        with suppress(TimeoutError):
            await bridge.send_response(Response(200, [], b"0123456789"), client(sent, reads))

    run(test)
    assert sent[0]["status"] == 200
    received = b"".join(part.get("body", b"") for part in sent[1:])
    assert received == (b"0123456789" if complete else b"01234567")
    assert sent[-1].get("more_body", False) is not complete
