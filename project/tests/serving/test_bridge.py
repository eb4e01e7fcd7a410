"""The way to Django: how much of bodies arrives at a time, whose, and how answers are sent."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from typing import Any

import pytest

from project.serving import answers, application, bodies
from project.serving.bodies import UNKNOWN, Message, Receive, Refused
from project.serving.bridge import Bridge
from project.serving.responses import Response

LONGEST = 2 * UNKNOWN
PIECE = bytes(UNKNOWN // 2)


class Answer(list[bytes]):
    """A response of a WSGI application."""

    def close(self) -> None: ...


def echo(environ: dict[str, Any], start_response: Any) -> Answer:
    start_response("200 OK", [])
    return Answer([environ["wsgi.input"].read()])


def says(status: str, asked: list[Any], environ: dict[str, Any], start_response: Any) -> Answer:
    asked.append(environ)
    start_response(status, [])
    return Answer()


def bridge(admission: Any = None) -> Bridge:
    return Bridge(
        echo, admission=admission, threads=1, patience=10, most_bytes=lambda path: LONGEST
    )


def scope(*headers: tuple[bytes, bytes], address: str = "192.0.2.1") -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers, (b"x-forwarded-for", address.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


def sized(length: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % length


CHUNKED = (b"transfer-encoding", b"chunked")


def sends(*pieces: bytes, ends: bool = True) -> Receive:
    """Return a receive() with these pieces, and the end or a silence after the last one."""
    waiting = [*pieces]

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        piece = waiting.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(waiting) or not ends}

    return receive


async def begun(*requests: Any) -> list["asyncio.Task[Response]"]:
    """Start requests whose bodies stop arriving, and return when they wait."""
    tasks = [asyncio.create_task(each) for each in requests]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def ended(tasks: list["asyncio.Task[Response]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


# --- Bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [sized(LONGEST), CHUNKED])
def test_a_body_that_has_not_arrived_takes_no_room(
    monkeypatch: pytest.MonkeyPatch, header: tuple[bytes, bytes]
) -> None:
    monkeypatch.setattr(bodies, "MOST_RECEIVED", 64)

    async def test() -> None:
        way = bridge()
        silent = await begun(*(way.answer(scope(header), sends()) for _ in range(64)))
        assert (await way.answer(scope(sized(9)), sends(b"1234", b"56789"))).body == b"123456789"
        await ended(silent)

    run(test)


def test_what_has_arrived_leaves_room_for_short_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sender may hold a quarter of what is free: 16 of 64 bytes, then 12 of 48, and so on."""
    monkeypatch.setattr(bodies, "MOST_RECEIVED", 64)

    async def test() -> None:
        way = bridge()
        halves = [sends(bytes(size), ends=False) for size in (16, 12, 9, 6, 5, 4)]
        silent = await begun(*(way.answer(scope(sized(99)), half) for half in halves))
        assert way.room.free == 12
        for size in (3, 1):
            assert (await way.answer(scope(sized(size)), sends(bytes(size)))).status == 200
        with pytest.raises(Refused):
            await way.answer(scope(sized(4)), sends(bytes(4)))
        await ended(silent)
        assert way.room.free == 64
        assert not way.room.held
        with pytest.raises(Refused):
            await way.answer(scope(sized(17)), sends(bytes(9), bytes(8)))

    run(test)


@pytest.mark.parametrize("known", [True, False])
def test_a_network_has_one_share_where_addresses_are_known(
    monkeypatch: pytest.MonkeyPatch, settings: Any, *, known: bool
) -> None:
    """Behind a proxy that does not pass them on, all clients would have one share."""
    settings.BEHIND_PROXY = known
    monkeypatch.setattr(bodies, "MOST_RECEIVED", 64)

    async def test() -> None:
        way = bridge()

        def from_(address: str) -> Awaitable[Response]:
            return way.answer(scope(sized(8), address=address), sends(bytes(8)))

        held = scope(sized(9), address="192.0.2.1")
        silent = await begun(way.answer(held, sends(bytes(12), ends=False)))
        if known:
            with pytest.raises(Refused):
                await from_("192.0.2.255")
        else:
            assert (await from_("192.0.2.255")).status == 200
        assert (await from_("192.0.3.1")).status == 200
        await ended(silent)
        assert (await from_("192.0.2.255")).status == 200

    run(test)


@pytest.mark.parametrize("header", [sized(LONGEST), CHUNKED])
def test_the_sender_of_a_long_body_is_looked_up_once(header: tuple[bytes, bytes]) -> None:
    """The body of the look-up is empty, and it has no Idempotency-Key."""
    asked: list[dict[str, Any]] = []

    async def test() -> None:
        way = bridge(partial(says, "422 Unprocessable Entity", asked))
        sent = scope(header, (b"idempotency-key", b"a"), (b"authorization", b"Bearer a"))
        answer = await way.answer(sent, sends(*[PIECE] * 4))
        assert answer.body == bytes(LONGEST)

    run(test)
    (environ,) = asked
    assert environ["CONTENT_LENGTH"] == "0"
    assert environ["wsgi.input"].read() == b""
    assert environ["HTTP_AUTHORIZATION"] == "Bearer a"
    assert "HTTP_IDEMPOTENCY_KEY" not in environ


def test_no_more_is_read_of_an_unknown_sender() -> None:
    async def test() -> None:
        way = bridge(partial(says, "401 Unauthorized", []))
        sent = scope(sized(LONGEST))
        answer = await way.answer(sent, sends(PIECE, PIECE, b"1", ends=False))
        assert answer.status == 401
        assert sent["body"].more
        assert way.room.free == bodies.MOST_RECEIVED

    run(test)


def test_a_body_that_is_not_long_needs_no_look_up() -> None:
    async def test() -> None:
        answer = await bridge().answer(scope(sized(UNKNOWN)), sends(PIECE, PIECE))
        assert answer.body == bytes(UNKNOWN)

    run(test)


def test_an_error_before_the_thread_takes_no_place() -> None:
    async def test() -> None:
        way = bridge()
        with pytest.raises(UnicodeDecodeError):
            await way.answer({**scope(), "query_string": b"\xe9"}, sends())
        async with asyncio.timeout(1):
            assert (await way.answer(scope(), sends())).status == 200

    run(test)


# --- Answers -------------------------------------------------------------------------------------


def client(sent: list[Message], reads: int = 99) -> answers.Send:
    """Return a send() to a client that stops reading after so many messages."""

    async def send(message: Message) -> None:
        if len(sent) >= reads:
            await asyncio.Event().wait()
        sent.append(message)

    return send


@pytest.mark.parametrize("kind", [bytes, BytesIO])
@pytest.mark.parametrize(("reads", "complete"), [(9, True), (3, False)])
def test_an_answer_whose_client_stops_reading_is_given_up(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], reads: int, *, complete: bool
) -> None:
    monkeypatch.setattr(answers, "PIECE", 4)
    monkeypatch.setattr(answers, "PIECE_TIMEOUT", 0.01)
    sent: list[Message] = []
    body = kind(b"0123456789")

    async def answer(*_: Any) -> Response:
        return Response(200, [], body)

    async def test() -> None:
        service = application.Service()
        monkeypatch.setattr(service, "answer", answer)
        await service(scope(), sends(), client(sent, reads))
        assert not service.answers.unsent

    run(test)
    assert sent[0]["status"] == 200
    received = b"".join(piece["body"] for piece in sent[1:])
    assert received == (b"0123456789" if complete else b"01234567")
    assert sent[-1]["more_body"] is not complete
    assert kind is bytes or body.closed


def test_the_oldest_unsent_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_UNSENT", 25)

    async def test() -> None:
        sending = answers.Answers()
        tasks = [
            asyncio.create_task(sending.send(bytes(10), client([], reads=0))) for _ in range(4)
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        assert [task.cancelled() for task in tasks] == [True, True, False, False]
        sent: list[Message] = []
        await sending.send(bytes(5), client(sent))
        assert sent[-1]["more_body"] is False
        assert sending.total == 20
        await ended(tasks[2:])  # type: ignore[arg-type]
        assert (sending.total, sending.unsent) == (0, {})

    run(test)
