"""The traffic during a fault: users who follow links as people do, and their ledger.

A user sends ten requests a second, all of them far fewer than the service can answer. So a request
waits only because of the fault.
"""

import random
import uuid
from collections import Counter
from http import HTTPStatus
from typing import Any, NamedTuple

from locust import FastHttpUser, constant_pacing, task
from locust.env import Environment

from loadtests.key_space import BROWSER, Link
from loadtests.records import Records, Result, Verdict
from loadtests.servers import OwnPostgres, RunningService, wait_until

CLIENT_TIMEOUT = 60.0  # seconds, longer than any limit
MIN_REDIRECTS = 100  # in a row without an error
UNAVAILABLE = (0, 502, 503, 504)  # of an outage, which a fault may cause; 0 is no answer


class Kind(NamedTuple):
    """A way to request a link; a hit is counted if `is_hit`."""

    query: str = ""
    headers: dict[str, str] = {}
    method: str = "GET"
    is_hit: bool = True


KINDS = {
    "hot": Kind(),
    "cold": Kind(),
    "tagged": Kind("?utm_source=mail&fbclid=x"),
    "forwarding": Kind("?utm_source=mail&page=2"),
    "conditional": Kind(headers={"If-None-Match": "*", "If-Modified-Since": "x"}),
    "headed": Kind(method="HEAD", is_hit=False),
    "prefetched": Kind(headers={"Sec-Purpose": "prefetch"}, is_hit=False),
}


class User(FastHttpUser):
    """A user of the service, who records every request."""

    abstract = True
    wait_time = constant_pacing(0.1)  # seconds
    network_timeout = CLIENT_TIMEOUT
    traffic: "Traffic"  # set by Traffic

    def send(self, method: str, path: str, name: str, *statuses: int, **options: Any) -> Any:
        """Send a request; return the response if it has one of the `statuses`, else None."""
        options |= {"name": name, "catch_response": True, "allow_redirects": False}
        with self.client.request(method, path, **options) as response:
            if response.status_code in statuses:
                response.success()
                return response
            self.traffic.redirects = 0
            if response.status_code not in UNAVAILABLE:
                self.traffic.records.failed[f"{response.status_code} of {name}"] += 1
        return None

    def follow(self, key: str, name: str, kind: Kind) -> Any:
        """Request a link, and record it; return the response if it is a right one, else None."""
        records = self.traffic.records
        headers = {"User-Agent": BROWSER, **kind.headers}
        statuses = [HTTPStatus.FOUND, HTTPStatus.GONE]
        if kind.is_hit:
            records.sent[key] += 1
        else:
            statuses.append(HTTPStatus.SERVICE_UNAVAILABLE)  # so the service refuses a prefetch
        path = f"/{key}{kind.query}"
        response = self.send(kind.method, path, name, *statuses, headers=headers)
        if response is None:
            return None
        if response.status_code == HTTPStatus.GONE:
            records.refused[key] += 1
        elif kind.is_hit:
            records.acknowledged[key] += 1
            self.traffic.redirects += 1
        return response

    def create(self, **values: Any) -> str | None:
        """Create a link; return its key, or None if the create was not acknowledged."""
        target_url = f"https://{self.traffic.space}.invalid/{uuid.uuid4().hex}"
        records = self.traffic.records
        records.sent[target_url] += 1
        content = {"target_url": target_url, **values}
        response = self.send("POST", "/api/links", "create", HTTPStatus.CREATED, json=content)
        if response is None:
            return None
        records.acknowledged[target_url] += 1
        return str(response.json()["key"])


class Follower(User):
    """Requests all links but that with a limit."""

    fixed_count = 16

    @task
    def follow_link(self) -> None:
        """Request a link of a random kind, and check that a query is forwarded."""
        name = random.choice(list(KINDS))  # noqa: S311
        response = self.follow(self.traffic.keys[name], name, KINDS[name])
        if response and name == "forwarding" and "page=2" not in response.headers["Location"]:
            self.traffic.records.failed["query not forwarded"] += 1


class LimitedFollower(User):
    """Follows a link with a limit until it is used up, and then creates the next one."""

    fixed_count = 3

    @task
    def follow_limited(self) -> None:
        key = self.traffic.limited or self.create(max_hits=5)
        self.traffic.limited = key
        response = self.follow(key, "limited", Kind()) if key else None
        if response is not None and response.status_code == HTTPStatus.GONE:
            self.traffic.limited = None


class Visitor(User):
    """Creates links, opens pages, and asks whether the service is alive."""

    fixed_count = 3

    @task
    def visit(self) -> None:
        self.create()
        hot = self.traffic.keys["hot"]
        path = random.choice(["/", "/account/login/", f"/{hot}/stats", f"/{hot}/qr.svg"])  # noqa: S311
        self.send("GET", path, "page", HTTPStatus.OK)
        # As a load balancer asks, on a connection for one request.
        self.send("GET", "/healthz", "/healthz", HTTPStatus.OK, headers={"Connection": "close"})


class Traffic:
    """The users of a service, who begin at once, and their records.

    `keys` has the key of a link for each of KINDS, and `limited` that of a link with a limit, until
    it is used up. `redirects` is the number of redirects since a request failed.
    """

    def __init__(self, service: RunningService, postgres: OwnPostgres) -> None:
        self.service = service
        self.postgres = postgres
        self.space = f"lab-{uuid.uuid4().hex[:5]}"
        self.records = Records()
        self.redirects = 0
        self.limited: str | None = None
        User.traffic = self  # Locust itself makes the users
        User.host = service.url
        users: list[Any] = [Follower, LimitedFollower, Visitor]
        environment = Environment(user_classes=users, stop_timeout=CLIENT_TIMEOUT)
        self.stats = environment.stats
        self.runner = environment.create_local_runner()
        self.first_user = Visitor(environment)
        self.keys = {
            name: str(self.first_user.create(forward_query=name == "forwarding")) for name in KINDS
        }
        count = sum(user.fixed_count for user in users)
        self.runner.start(count, spawn_rate=count)

    def wait_until_at_work(self) -> None:
        """Wait for MIN_REDIRECTS redirects without an error; raise TimeoutError."""
        self.redirects = 0
        problem = "the load is not answered"
        wait_until(lambda: self.redirects >= MIN_REDIRECTS, problem, CLIENT_TIMEOUT)

    def stop(self) -> Result:
        """Wait for the answers to all requests, and compare them with the service."""
        self.runner.stop()
        links: Any = self.first_user.client.get(f"/lab/load/{self.space}").json()
        return compare(self.records, [Link(*row) for row in links["links"]])


def compare(records: Records, links: list[Link]) -> Result:
    """Compare the records with the links: hits by key, creates by target URL.

    A hit without a visit is lost, and so are a visit without a hit and a use beyond the limit.
    """
    hits = Counter({link.key: link.hits for link in links})
    visits = Counter({link.key: link.visits for link in links})
    allowed = Counter({link.key: link.max_hits or link.hits for link in links})  # None is no limit
    counted = hits + Counter(link.target_url for link in links)
    lost = records.acknowledged - counted
    lost += (hits - visits) + (visits - hits) + (hits - allowed)
    return Result(records, Verdict(counted, lost))
