"""The lab's API, as a load run uses it: open a key space, read what is in it, remove it."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

TIMEOUT = 30  # seconds


class LabError(Exception):
    """The lab cannot be used. The message is one line."""


class StoredLink(NamedTuple):
    """A short URL of a key space as the database has it."""

    key: str
    target_url: str
    hits: int
    max_hits: int | None = None
    visits: int = 0


class Lab:
    """The lab of the service at `host`, for example http://127.0.0.1:8000."""

    def __init__(self, host: str) -> None:
        try:
            split = urlsplit(host)
            good = split.scheme in ("http", "https") and split.hostname and split.port != 0
        except ValueError:  # the port is not a number, or the IPv6 address is incomplete
            good = False
        if not good:
            raise LabError(f"{host!r} is not a host: write it like http://127.0.0.1:8000")
        self.host = host.rstrip("/")
        # Without the proxy that the environment may name: it may not reach the loopback.
        self._opener = build_opener(ProxyHandler({}))

    def open_space(self, key_length: int, *, own_visits: bool = False) -> dict[str, Any]:
        """Return a new key space, and the service's versions and strategies.

        With `own_visits` it has a table of visits of its own, which can be rolled up.
        Raises LabError when there is no service, its endpoints for load tests are off, or the
        length is out of range.
        """
        content = {"key_length": key_length, "own_visits": own_visits}
        return self._call("POST", "/lab/spaces", content)

    def create(
        self, space: str, strategy: str, target_url: str, max_hits: int | None = None
    ) -> str:
        """Return the key of a new link in `space`, with that limit."""
        content = {"space": space, "round": 0, "target_url": target_url, "max_hits": max_hits}
        return str(self._call("POST", f"/lab/create/{strategy}", content)["key"])

    def links(self, space: str) -> Iterator[StoredLink]:
        """Yield the links of `space`, oldest first."""
        page: str | None = f"/lab/spaces/{space}/links"
        while page:
            answer = self._call("GET", page)
            yield from (StoredLink(*row) for row in answer["links"])
            page = answer["next"]

    def close_space(self, space: str) -> int:
        """Remove `space` and return how many links it had."""
        return int(self._call("DELETE", f"/lab/spaces/{space}")["removed"])

    def _call(self, method: str, path: str, content: Any = None) -> dict[str, Any]:
        body = None if content is None else json.dumps(content).encode()
        request = Request(  # noqa: S310 (the scheme is checked above)
            self.host + path, data=body, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except HTTPError as error:
            with error:
                raise LabError(self._reason(error, path)) from error
        except URLError as error:
            raise LabError(
                f"no service answers at {self.host} ({error.reason}): start one with `make run`"
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise LabError(f"{self.host} does not answer as the service does: {error}") from error

    def _reason(self, error: HTTPError, path: str) -> str:
        try:
            answer = json.load(error)
            return str(answer.get("detail") or answer.get("message"))
        except ValueError:
            if error.code == 404 and path == "/lab/spaces":
                return (
                    f"the endpoints for load tests are off at {self.host}: "
                    "start the service with SHORTURL_LAB=on and SHORTURL_LAB_LOAD=on"
                )
            return f"{self.host}{path} answers {error.code}"
