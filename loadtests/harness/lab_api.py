"""A client of the lab's API: open a key space, read its links, remove it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

TIMEOUT = 30  # seconds


class LabError(Exception):
    """The lab cannot be used. The message is one line."""


class StoredLink(NamedTuple):
    """A short URL of a key space in the database."""

    key: str
    target_url: str
    hits: int
    max_hits: int | None = None
    visits: int = 0


class Lab:
    """The lab of the service at `host`, for example http://127.0.0.1:8000.

    Each call raises LabError when no service answers, its endpoints for load tests are off, or it
    refuses the request.
    """

    def __init__(self, host: str) -> None:
        self.host = host.rstrip("/")

    def open_space(self, key_length: int, *, own_visits: bool = False) -> dict[str, Any]:
        """Return a new key space, and the service's versions and strategies.

        With `own_visits` it has a separate table of visits, which can be rolled up.
        """
        content = {"key_length": key_length, "own_visits": own_visits}
        return self._call("POST", "/lab/spaces", content)

    def create(
        self, space: str, strategy: str, target_url: str, max_hits: int | None = None
    ) -> str:
        """Return the key of a new link in `space`."""
        content = {"space": space, "round": 0, "target_url": target_url, "max_hits": max_hits}
        return str(self._call("POST", f"/lab/create/{strategy}", content)["key"])

    def links(self, space: str) -> Iterator[StoredLink]:
        """Yield the links of `space`, oldest first."""
        page: str | None = f"/lab/spaces/{space}/links"
        while page:
            answer = self._call("GET", page)
            yield from (StoredLink(*row) for row in answer["links"])
            page = answer["next"]

    def close_space(self, space: str) -> None:
        self._call("DELETE", f"/lab/spaces/{space}")

    def _call(self, method: str, path: str, content: Any = None) -> dict[str, Any]:
        url = self.host + path
        try:
            with requests.Session() as session:
                session.trust_env = False  # a proxy in the environment may not reach the loopback
                response = session.request(method, url, json=content, timeout=TIMEOUT)
            if response.ok:
                answer: dict[str, Any] = response.json()
                return answer
        except requests.RequestException as error:
            if isinstance(error, (InvalidSchema, InvalidURL, MissingSchema)):
                problem = f"{self.host!r} is not a host: write it like http://127.0.0.1:8000"
            elif isinstance(error, requests.ConnectionError):
                problem = (
                    f"no service answers at {self.host}: start one with `make run`, "
                    "or name another with --host"
                )
            else:
                problem = f"{self.host} does not answer as the service does: {error}"
            raise LabError(problem) from error
        try:
            answer = response.json()
            problem = str(answer.get("detail") or answer.get("message"))
        except ValueError:
            problem = f"{url} answers {response.status_code}"
            if response.status_code == 404 and path == "/lab/spaces":
                problem = (
                    f"the endpoints for load tests are off at {self.host}: "
                    "start a local one with `make run`"
                )
        raise LabError(problem)
