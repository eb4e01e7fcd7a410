"""The bodies of requests, which arrive on the event loop within a time and a number of bytes.

Only bytes that have arrived count. A sender may hold a quarter of the bytes that are free, so a
long body is refused before a short one, and the bytes are never all taken.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from django.conf import settings

from shorturl.limits.client_address import address_of, hashed_network

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

# Seconds for a body to arrive: for its first UNKNOWN bytes, and for the others.
RECEIVE_TIMEOUT = 5.0
MOST_RECEIVED = 64 * 1024 * 1024  # bytes of bodies that a worker has at a time
SHARE = 4  # a sender may hold the free bytes, divided by this
UNKNOWN = 64 * 1024  # bytes that are received of a sender who may be anyone
# Seconds in which the rest of a refused body is thrown away, and of these without any byte. The
# kernel resets a connection that is closed before all is read, and the client may lose the answer.
LINGER, SILENCE = 5.0, 0.5

BUSY = HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests at the moment."
TOO_SLOW = (
    HTTPStatus.REQUEST_TIMEOUT,
    f"The body did not arrive within {RECEIVE_TIMEOUT:.0f} seconds.",
)


class Refused(Exception):
    """The request is not passed to Django. The arguments are the status and detail to answer."""


class ClientGone(Exception):
    """The client has closed the connection before its whole request arrived."""


class Room:
    """The bytes that bodies may have in this process, and who holds them."""

    def __init__(self) -> None:
        self.free, self.held = MOST_RECEIVED, Counter[object]()

    def take(self, holder: object, size: int) -> None:
        """Give bytes to a holder; raise Refused if it would hold too many."""
        if (self.held[holder] + size) * SHARE > self.free:
            raise Refused(*BUSY)
        self.free -= size
        self.held[holder] += size

    def give_back(self, holder: object, size: int) -> None:
        self.free += size
        self.held[holder] -= size
        if not self.held[holder]:
            del self.held[holder]


class Body:
    """The body of a request, as far as it has arrived; call release() when it is answered."""

    def __init__(self, environ: Mapping[str, Any], receive: Receive, room: Room) -> None:
        self.receive, self.room, self.data = receive, room, bytearray()
        self.length = int(environ.get("CONTENT_LENGTH") or 0)
        self.more = "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ
        # Behind a proxy all clients have its address, unless it passes theirs on.
        self.holder: object = self
        if self.more and settings.BEHIND_PROXY:
            self.holder = hashed_network(address_of(environ), settings.SECRET_KEY)

    async def arrive(self, most: int) -> None:
        """Return when the body has arrived, or more than `most` bytes of it.

        Raises Refused if it is too slow or there is no room, and ClientGone.
        """
        try:
            async with asyncio.timeout(RECEIVE_TIMEOUT):
                while self.more and len(self.data) <= most:
                    piece = await self.piece()
                    self.room.take(self.holder, len(piece))
                    self.data += piece
        except TimeoutError as error:
            raise Refused(*TOO_SLOW) from error

    async def piece(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.more = message.get("more_body", False)
        return bytes(message.get("body", b""))

    async def discard(self) -> None:
        """Throw away what still arrives after the answer."""
        with suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(LINGER):
                while self.more:
                    async with asyncio.timeout(SILENCE):
                        await self.piece()

    def release(self) -> None:
        self.room.give_back(self.holder, len(self.data))
        self.data = bytearray()
