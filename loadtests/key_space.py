"""The links of a load run at the service's load endpoints: see lab/load/views.py."""

import uuid
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import requests
from locust import events
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from loadtests.ledger import Ledger

SERVICE = "service"  # as a strategy: the service's own /KEY
TIMEOUT = 30  # seconds
# Without it a client is a bot for the service, and does not use up a link.
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
DONE = HTTPStatus.CREATED, HTTPStatus.FOUND
# Nothing was done: the request is in progress, the link or the quota is used up.
REFUSALS = HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.TOO_MANY_REQUESTS


class Link(NamedTuple):
    """A link as the service has it."""

    key: str
    target_url: str
    hits: int
    max_hits: int | None
    visits: int


class KeySpace:
    """The links of a script in the service, and the requests for them, which the ledger records.

    Each run begins with this number of `links`, each of which can be followed `max_hits` times. The
    strategies of `operation` use them.
    """

    def __init__(
        self, ledger: Ledger, operation: str, *, links: int = 0, max_hits: int | None = None
    ) -> None:
        self.ledger = ledger
        self.operation = operation
        self.links = links
        self.max_hits = max_hits
        self.session = requests.Session()
        self.session.trust_env = False  # a proxy of the environment does not reach the loopback
        # A request to read or to remove the links is repeated, as `make races` kills workers.
        retry = Retry(5, connect=0, backoff_factor=0.1)
        self.session.mount("http://", HTTPAdapter(max_retries=retry))
        ledger.prepare(self.make_links)
        # After the ledger's own listener, which reads the links.
        events.test_stop.add_listener(self.remove_links)  # type: ignore[no-untyped-call]

    @property
    def keys(self) -> list[str]:
        """The keys of the links that a run begins with."""
        return [f"{self.name}-link-{number}" for number in range(self.links)]

    def target_url(self, path: object) -> str:
        """Return a target URL with this path; its host names the key space."""
        return f"https://{self.name}.invalid/{path}"

    def run(self, client: Any, recorded_as: str, **content: Any) -> bool:
        """Request the operation once, by the chosen strategy; return whether it is refused."""
        path = f"/lab/load/{self.name}/{self.operation}/{self.strategy}"
        title = f"{self.operation} {self.strategy}"
        return self.send(client, recorded_as, "POST", path, title, content)

    def follow(self, client: Any, key: str) -> bool:
        """Follow a link by the strategy or at the service's /KEY; return whether it is refused."""
        if self.strategy == SERVICE:
            return self.send(client, key, "GET", f"/{key}", "/KEY")
        return self.run(client, key, key=key)

    def send(
        self, client: Any, recorded_as: str, method: str, path: str, title: str, content: Any = None
    ) -> bool:
        """Send a request, and record it in the ledger; return whether the service refuses it.

        The ledger has the request under the name `recorded_as`, and Locust under `title`.
        """
        request_id = uuid.uuid4().hex
        headers = {"User-Agent": BROWSER, "X-Request-ID": request_id}
        options = {"headers": headers, "catch_response": True, "allow_redirects": False}
        self.ledger.sent[recorded_as] += 1
        with client.request(method, path, name=title, json=content, **options) as response:
            response_headers = response.headers or {}
            if response_headers.get("X-Request-ID", request_id) != request_id:
                return False  # a proxy has repeated the response to another request
            if response.status_code in DONE:
                self.ledger.acknowledged[recorded_as] += 1
            if response.status_code in REFUSALS:
                self.ledger.refused[recorded_as] += 1
                response.success()
            is_json = response_headers.get("Content-Type", "").startswith("application/json")
            answer = response.json() if is_json else {}
            if response.status_code == HTTPStatus.INTERNAL_SERVER_ERROR and "exception" in answer:
                self.ledger.records.failed[answer["exception"]] += 1
            return response.status_code in REFUSALS

    def read(self) -> list[Link]:
        """Return the links that the service has."""
        return [Link(*row) for row in self.call("GET")["links"]]

    @property
    def name(self) -> str:
        """The name of the key space, with which its keys begin."""
        return f"lab-{self.ledger.run_name[-5:]}"

    @property
    def strategy(self) -> str:
        return str(self.ledger.environment.parsed_options.strategy)

    def call(self, method: str, path: str = "", content: Any = None) -> Any:
        """Call a load endpoint of the service; raise RequestException, also for an error status."""
        url = f"{self.ledger.environment.host}/lab/load/{self.name}{path}"
        response = self.session.request(method, url, json=content, timeout=TIMEOUT)
        response.raise_for_status()
        return response.json()

    def make_links(self) -> None:
        """Create the links of a run.

        Raises RequestException without a service, and ValueError for an unknown strategy.
        """
        strategies = [SERVICE, *self.call("GET")["strategies"][self.operation]]
        if self.strategy not in strategies:
            known = ", ".join(strategies)
            raise ValueError(f"there is no strategy {self.strategy!r}; there are {known}")
        limit = {"max_hits": self.max_hits} if self.max_hits else {}
        for key in self.keys:
            content = {"key": key, "target_url": self.target_url(key), **limit}
            self.call("POST", "/creating/on_conflict", content)
        race = Path(self.ledger.environment.locustfile).stem  # a script has the name of its race
        strategy = "" if self.strategy == SERVICE else f" {self.strategy}"
        self.ledger.explorer = f".venv/bin/python manage.py race explore {race}{strategy}"

    def remove_links(self, **kwargs: Any) -> None:
        """Remove the links of a run."""
        if not self.ledger.is_worker:
            with suppress(requests.RequestException):  # another run removes them after an hour
                self.call("DELETE")
