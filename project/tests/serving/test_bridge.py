"""The limits on bodies that are received at a time, and on the time to send one."""

import asyncio
from typing import Any

import pytest

from project.serving import application as serving
from project.serving import bridge
from project.serving.bridge import Bridge, Message, Refused
from project.serving.responses import Response


def application(environ: dict[str, Any], start_response: Any) -> Any:
    class Body(list[bytes]):
        def close(self) -> None: ...

    start_response("200 OK", [])
    return Body([environ["wsgi.input"].read()])


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


@pytest.mark.parametrize("header", [(b"content-length", b"8"), (b"transfer-encoding", b"chunked")])
def test_bodies_beyond_the_bytes_of_a_worker_are_refused(
    monkeypatch: pytest.MonkeyPatch, header: tuple[bytes, bytes]
) -> None:
    monkeypatch.setattr(bridge, "MOST_RECEIVED", 16)

    async def run() -> None:
        way = Bridge(application, threads=1, patience=10, most_bytes=lambda _: 9)
        sent = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await sent.wait()
            return {"type": "http.request", "body": b"12345678", "more_body": False}

        first = asyncio.create_task(way.answer(scope((b"content-length", b"8")), receive))
        second = asyncio.create_task(way.answer(scope((b"content-length", b"8")), receive))
        await asyncio.sleep(0)
        with pytest.raises(Refused):
            await way.answer(scope(header), receive)
        sent.set()
        for each in (first, second, asyncio.create_task(way.answer(scope(header), receive))):
            assert (await each).body == b"12345678"

    asyncio.run(run())


@pytest.mark.parametrize(("reads", "complete"), [(3, True), (2, False)])
def test_an_answer_whose_client_stops_reading_is_given_up(
    monkeypatch: pytest.MonkeyPatch, reads: int, complete: bool
) -> None:
    monkeypatch.setattr(serving, "PIECE", 4)
    monkeypatch.setattr(serving, "PIECE_TIMEOUT", 0.01)
    sent: list[Message] = []

    async def answer(*_: Any) -> Response:
        return Response(200, [], b"0123456789")

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        if len(sent) > reads:
            await asyncio.Event().wait()
        sent.append(message)

    async def run() -> None:
        service = serving.Service()
        monkeypatch.setattr(service, "answer", answer)
        await service(scope(), receive, send)

    asyncio.run(run())
    assert sent[0]["status"] == 200
    assert b"".join(piece["body"] for piece in sent[1:]) == b"0123456789"[: 4 * reads]
    assert sent[-1]["more_body"] is not complete
