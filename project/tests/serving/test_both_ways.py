"""The event loop (project.asgi) and Django (project.wsgi) answer one table of requests alike."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import pytest

from loadtests.servers import NO_REFUSALS, own_postgres, serving
from project.tests.conftest import Answer, ask

PLAIN_DJANGO = ("--worker-class=gthread", "--threads=4", "project.wsgi")
HEADERS_OF_GUNICORN = {"server", "date", "connection", "transfer-encoding", "content-length"}
LINKS = """
    INSERT INTO shorturl_shorturl (key, target_url, hits, max_hits, expires_at, forward_query)
    VALUES ('spring', 'https://example.com/', 0, NULL, NULL, false),
           ('idn', 'https://例え.jp/パス?q=ü#é', 0, NULL, NULL, false),
           ('script', 'javascript:alert(1)', 0, NULL, NULL, false),
           ('host', 'https://[x', 0, NULL, NULL, true),
           ('used', 'https://example.com/', 1, 1, NULL, false),
           ('over', 'https://example.com/', 0, NULL, now(), false),
           ('some', 'https://example.com/secret', 0, 99, NULL, false),
           ('fw', 'https://example.com/?a=1#there', 0, NULL, NULL, true)
"""
COUNTS = """
    SELECT (SELECT sum(hits) FROM shorturl_shorturl),
           (SELECT coalesce(sum(jsonb_array_length(kinds)), 0) FROM shorturl_recentvisits)
"""
PERSON = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "referer": "https://news.example/",
}
REDIRECT = {
    "cache-control": "private, no-store",
    "referrer-policy": "same-origin",
    "strict-transport-security": "max-age=31536000",
}
BOT, NOBODY = {"user-agent": "WhatsApp/2.23.20.0"}, {"user-agent": ""}
OTHER_HOST, LONG_HOST = {"host": "example.net"}, {"host": f"localhost:{'1' * 5000}"}
HTTP = {"x-forwarded-proto": "http"}
HERE = "http://localhost:8000"
TO = "https://example.com/"
NOT_COMPARED = {
    *("/script", "/host?a"),  # these answers have fewer headers on the loop
    *(HERE, f"{HERE}?a"),  # this page has a CSRF token of its own in each answer
}
# Method, path, headers, the status, the Location, and the hits that are counted.
CASES: list[tuple[str, str, dict[str, str], int, str | None, int]] = [
    ("GET", "/spring", PERSON, 302, TO, 1),
    ("GET", "/spring?utm_source=a", BOT, 302, TO, 1),
    ("GET", "/%73pring", NOBODY, 302, TO, 1),
    ("POST", "/spring", PERSON, 405, None, 0),
    ("GET", "/spring", OTHER_HOST, 400, None, 0),
    ("GET", "/spring", LONG_HOST, 400, None, 0),
    ("GET", "/spring/qr.svg", LONG_HOST, 400, None, 0),
    ("GET", "/spring", {"sec-purpose": "prefetch;prerender"}, 503, None, 0),
    ("GET", "/some", {"purpose": "prefetch"}, 503, None, 0),
    ("GET", "/some", {"x-moz": "prefetch"}, 503, None, 0),
    ("GET", "/spring", HTTP, 301, "https://localhost/spring", 0),
    ("GET", "/spring", {"x-forwarded-proto": "http, https"}, 301, "https://localhost/spring", 0),
    ("GET", "/spring", {"x-forwarded-proto": "https, http"}, 302, TO, 1),  # the first one counts
    ("GET", "/spring+", PERSON, 200, None, 0),
    ("GET", "/spring+?%C3%BC", {"content-type": "text/plain; charset=base64"}, 200, None, 0),
    ("GET", "/spring%E2%80%9D).?a=b", PERSON, 302, "/spring?a=b", 0),  # copied with ”).
    ("GET", "/idn", PERSON, 302, "https://xn--r8jz45g.jp/%E3%83%91%E3%82%B9?q=%C3%BC#%C3%A9", 1),
    ("GET", "/fw?p=a\\b&%C3%BC", PERSON, 302, f"{TO}?a=1&p=a%5Cb&%C3%BC#there", 1),
    ("HEAD", "/fw?b", PERSON, 302, f"{TO}?a=1&b#there", 0),
    ("GET", f"/fw?{'b' * 2_000}", PERSON, 302, f"{TO}?a=1#there", 1),  # it would be too long
    ("GET", "/script", PERSON, 400, None, 1),
    ("GET", "/host?a", PERSON, 400, None, 1),
    ("GET", "/some", PERSON, 302, f"{TO}secret", 1),
    ("GET", "/some", BOT, 200, None, 0),  # neither a bot nor HEAD gets the target of a limited link
    ("GET", "/some", NOBODY, 200, None, 0),
    ("HEAD", "/some", PERSON, 302, None, 0),
    ("GET", "/used", PERSON, 410, None, 0),
    ("GET", "/used", {"accept": "application/json"}, 410, None, 0),
    ("GET", "/over", PERSON, 410, None, 0),
    ("GET", "/unknown", PERSON, 404, None, 0),
    ("GET", "/healthz", OTHER_HOST | HTTP, 200, None, 0),
    # In absolute form the header Host does not matter.
    ("GET", f"{HERE}/%73pring?utm_source=a", OTHER_HOST, 302, TO, 1),
    ("GET", f"HTTP{HERE[4:]}/spring", OTHER_HOST, 302, TO, 1),
    ("GET", f"{HERE}/fw?b", PERSON, 302, f"{TO}?a=1&b#there", 1),
    ("GET", "http://example.net/spring", PERSON, 400, None, 0),
    ("GET", "http://user@localhost/spring", PERSON, 400, None, 0),
    ("GET", "http:///spring", PERSON, 400, None, 0),
    ("GET", f"{HERE}/spring", HTTP, 301, "https://localhost:8000/spring", 0),
    ("GET", f"{HERE}/spring+", OTHER_HOST, 200, None, 0),
    ("GET", f"{HERE}/unknown", OTHER_HOST, 404, None, 0),
    ("GET", HERE, OTHER_HOST, 200, None, 0),
    ("GET", f"{HERE}?a", OTHER_HOST, 200, None, 0),
    ("GET", f"{HERE}/healthz", OTHER_HOST, 200, None, 0),
]


class Services(NamedTuple):
    """A service on the event loop, and one of plain Django, with the same database."""

    urls: list[str]
    cursor: Any

    def count_hits_and_visits(self) -> list[int]:
        """Return the hits of all links, and the visits that were recorded."""
        self.cursor.execute(COUNTS)
        return [int(number) for number in self.cursor.fetchone()]

    def read_last_visit(self) -> Any:
        self.cursor.execute("SELECT kinds FROM shorturl_recentvisits ORDER BY id DESC LIMIT 1")
        return self.cursor.fetchone()


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with ExitStack() as stack:
        postgres = stack.enter_context(own_postgres())
        settings = {"DATABASE_URL": postgres.url, "WORKERS": "1", **NO_REFUSALS}
        settings |= {"HTTPS": "on", "BEHIND_PROXY": "on", "ALLOWED_HOSTS": "localhost,127.0.0.1"}
        urls = [stack.enter_context(serving(*way, **settings)).url for way in ((), PLAIN_DJANGO)]
        database = stack.enter_context(closing(postgres.connect()))
        database.autocommit = True
        cursor = database.cursor()
        cursor.execute(LINKS)
        yield Services(urls, cursor)


def without_headers_of_gunicorn(answer: Answer) -> Answer:
    headers = {
        name: value for name, value in answer.headers.items() if name not in HEADERS_OF_GUNICORN
    }
    if policy := headers.get("content-security-policy"):  # its directives have no order
        headers["content-security-policy"] = sorted(policy.split("; "))
    return answer._replace(headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "location", "hits"),
    CASES,
    ids=[f"{method} {path[:30]}" for method, path, *_ in CASES],
)
def test_the_loop_and_django_answer_and_count_alike(
    services: Services, method: str, path: str, headers: Any, status: int, location: Any, hits: int
) -> None:
    headers = {"host": "localhost", "x-forwarded-proto": "https", **headers}
    answers, visits = [], []
    for url in services.urls:
        before = services.count_hits_and_visits()
        answer = without_headers_of_gunicorn(ask(url, method, path, headers=headers))
        assert services.count_hits_and_visits() == [number + hits for number in before]
        assert (answer.status, answer.headers.get("location")) == (status, location)
        assert b"secret" not in answer.body  # the target of /some
        if status == 302 and hits:
            assert answer.headers == {**REDIRECT, "location": location}
        answers.append(answer)
        visits.append(services.read_last_visit())
    assert visits[0] == visits[1]
    if path not in NOT_COMPARED:
        assert answers[0] == answers[1]
