"""The limit on bodies that are received at a time."""

import asyncio
from typing import Any

import pytest

from project.serving import bridge
from project.serving.bridge import Bridge, Refused


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
