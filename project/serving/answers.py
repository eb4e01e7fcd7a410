"""Send answers in pieces, and bound the bytes that slow clients leave unsent.

A file is read piece by piece. Any other answer is in memory until its last piece is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

from project.serving.bodies import Message

Send = Callable[[Message], Awaitable[None]]

# A client has to receive each PIECE of an answer, in bytes, within PIECE_TIMEOUT, in seconds. The
# kernel ends a connection without progress, but not while the client goes on sending requests.
PIECE, PIECE_TIMEOUT = 64 * 1024, 10.0
MOST_UNSENT = 64 * 1024 * 1024  # bytes of answers in memory; past them the oldest is given up


class Answers:
    """The answers that this process sends. gunicorn closes the connection of half an answer."""

    def __init__(self) -> None:
        self.unsent: dict[asyncio.Task[Any] | None, int] = {}  # bytes, by the task that sends them
        self.total = 0

    async def send(self, body: bytes | IO[bytes], send: Send) -> None:
        """Send a body; raise TimeoutError for a client that does not receive it."""
        if not isinstance(body, bytes):
            await send_file(body, send)
            return
        with self.counted(len(body)):
            for start in range(0, len(body), PIECE):
                more = start + PIECE < len(body)
                await send_piece(body[start : start + PIECE], send, more=more)

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        """Count the bytes of an answer in the block; beyond the limit give up the oldest answer."""
        task = asyncio.current_task()
        self.unsent[task] = size
        self.total += size
        try:
            while self.total > MOST_UNSENT:
                oldest = next(iter(self.unsent))
                self.total -= self.unsent.pop(oldest)
                if oldest:
                    oldest.cancel()
            yield
        finally:
            self.total -= self.unsent.pop(task, 0)


async def send_file(file: IO[bytes], send: Send) -> None:
    """Send a file and close it, both in threads, as a disk may be slow."""
    in_thread = partial(asyncio.get_running_loop().run_in_executor, None)
    try:
        while piece := await in_thread(file.read, PIECE):
            await send_piece(piece, send, more=True)
        await send_piece(b"", send, more=False)
    finally:
        in_thread(file.close)


async def send_piece(piece: bytes, send: Send, *, more: bool) -> None:
    async with asyncio.timeout(PIECE_TIMEOUT):  # sending may wait
        await send({"type": "http.response.body", "body": piece, "more_body": more})
