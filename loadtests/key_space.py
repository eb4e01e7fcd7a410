"""The links of a load run at the service's load endpoints: see lab/load/views.py."""

import uuid
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

import requests
from gevent.pool import Pool  # type: ignore[import-untyped]
from locust import events
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from loadtests.ledger import Ledger

SERVICE = "service"  # as a strategy: the service's own /KEY
TIMEOUT = 30  # seconds
MAX_CONNECTIONS = 10  # that create the links of a run
# Without it a client is a bot for the service, and does not use up a link.
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
# Answers that nothing was done: the request is in progress, the link or the quota is used up.
REFUSALS = HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.TOO_MANY_REQUESTS


class Link(NamedTuple):
    """A link as the service has it."""

    key: str
    target_url: str
    hits: int
    max_hits: int | None
    visits: int


class Answer(NamedTuple):
    """The answer to a request. The status is 0 if the service has not answered this request."""

    status: int
    content: dict[str, Any]

    @property
    def is_refusal(self) -> bool:
        """Whether the service says that nothing was done."""
        return self.status in REFUSALS


class KeySpace:
    """The links of a script in the service.

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
        events.init_command_line_parser.add_listener(self.add_option)  # type: ignore[no-untyped-call]
        events.quitting.add_listener(self.remove_links)  # type: ignore[no-untyped-call]

    @property
    def keys(self) -> list[str]:
        """The keys of the links that a run begins with."""
        return [f"{self.name}-link-{number}" for number in range(self.links)]

    def target_url(self, path: object) -> str:
        """Return a target URL of this key space, as all have to be."""
        return f"https://{self.name}.invalid/{path}"

    def run(self, client: Any, **content: Any) -> Answer:
        """Request the operation once, by the strategy of --strategy."""
        path = f"/lab/load/{self.name}/{self.operation}/{self.strategy}"
        return self.send(client, "POST", path, f"{self.operation} {self.strategy}", json=content)

    def follow(self, client: Any, key: str) -> Answer:
        """Follow a link by the strategy; with `--strategy service` at /KEY, as everybody does."""
        if self.strategy == SERVICE:
            return self.send(client, "GET", f"/{key}", "/KEY")
        return self.run(client, key=key)

    def send(self, client: Any, method: str, path: str, name: str, **options: Any) -> Answer:
        """Send a request, return its answer, and record the error of a strategy.

        A proxy may repeat the response to another request, which has the id of that request.
        """
        request_id = uuid.uuid4().hex
        options |= {"name": name, "catch_response": True, "allow_redirects": False}
        options["headers"] = {"User-Agent": BROWSER, "X-Request-ID": request_id}
        with client.request(method, path, **options) as response:
            headers = response.headers or {}
            if headers.get("X-Request-ID", request_id) != request_id:
                return Answer(0, {})
            is_json = headers.get("Content-Type", "").startswith("application/json")
            answer = Answer(response.status_code, response.json() if is_json else {})
            if answer.is_refusal:
                response.success()
            if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR and "exception" in answer.content:
                self.ledger.records.failed[answer.content["exception"]] += 1
            return answer

    def read(self) -> list[Link]:
        """Return the links that the service has."""
        return [Link(*row) for row in self.call("GET")["links"]]

    @property
    def name(self) -> str:
        """The name of the key space, with which its keys begin."""
        return str(self.ledger.environment.parsed_options.space)

    @property
    def strategy(self) -> str:
        return str(self.ledger.environment.parsed_options.strategy)

    def call(self, method: str, path: str = "", content: Any = None) -> dict[str, Any]:
        """Call a load endpoint of the service; raise RequestException, also for an error status."""
        url = f"{self.ledger.environment.host}/lab/load/{self.name}{path}"
        response = self.session.request(method, url, json=content, timeout=TIMEOUT)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def add_option(self, parser: Any, **kwargs: Any) -> None:
        """Add the name of the key space to the options, which a master sends to its workers."""
        name = f"lab-{uuid.uuid4().hex[:5]}"
        text = "the name of the key space, by default random"
        parser.add_argument("--space", default=name, help=text, include_in_web_ui=False)

    def make_links(self) -> None:
        """Empty the key space, and create the links of a run."""
        self.call("DELETE")
        known = [SERVICE, *self.call("GET")["strategies"][self.operation]]
        Pool(MAX_CONNECTIONS).map(self.create, self.keys)  # one after another takes too long
        if self.strategy not in known:
            self.ledger.fail(f"there is no strategy {self.strategy!r}; there are {known}")

    def create(self, key: str) -> None:
        """Create a link with this key."""
        limit = {"max_hits": self.max_hits} if self.max_hits else {}
        content = {"key": key, "target_url": self.target_url(key), **limit}
        self.call("POST", "/creating/on_conflict", content)

    def remove_links(self, environment: Any, **kwargs: Any) -> None:
        """Stop the run, which may have been interrupted, and remove its links."""
        if not self.ledger.is_worker:
            environment.runner.stop()
            with suppress(requests.RequestException):  # another run removes them after an hour
                self.call("DELETE")
