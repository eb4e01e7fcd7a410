"""The event loop (project.asgi) and Django (project.wsgi) answer a redirect alike."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg2
import pytest
from django.http import HttpResponseRedirect

from loadtests.harness.own_postgres import OwnPostgres, own_postgres
from loadtests.harness.serving import NO_REFUSALS, ROOT, serving, wait_until
from project.serving.redirects import is_ours
from project.tests.serving.test_serving import until
from shorturl import following
from shorturl.links.validators import location

PLAIN = ("--worker-class=gthread", "--threads=4", "project.wsgi")
OF_THE_SERVER = ("server", "date", "connection", "transfer-encoding", "content-length")
TARGETS = {
    "spring": "https://example.com/",
    "idn": "https://例え.jp/パス?q=ü#é",
    "odd": "https://example.com/a b\n",
    "script": "javascript:alert(1)",
    "host": "https://[x",
    "banned": "https://www.Banned.example./",
    "near": "https://not-banned.example/",
}
LINKS = """
    INSERT INTO shorturl_shorturl (key, target_url, hits, created_at) VALUES (%s, %s, 0, now())
"""
OVER = """
    INSERT INTO shorturl_shorturl
    (key, target_url, hits, created_at, deleted_at, max_hits, expires_at)
    VALUES ('gone', 'https://example.com/', 0, now(), now(), NULL, NULL),
           ('used', 'https://example.com/', 1, now(), NULL, 1, NULL),
           ('over', 'https://example.com/', 0, now(), NULL, NULL, now()),
           ('once', 'https://example.com/secret', 0, now(), NULL, 1, NULL),
           ('locked', 'https://example.com/', 0, now(), NULL, NULL, NULL)
"""
FULL_DISK = """
    CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE disk_full; END $$;
    CREATE TRIGGER full_disk BEFORE UPDATE ON shorturl_shorturl
    FOR EACH ROW EXECUTE FUNCTION full_disk()
"""
FORWARDS = """
    INSERT INTO shorturl_shorturl (key, target_url, forward_query)
    VALUES ('forwards', 'https://example.com/?a=1#there', true)
"""
BAN = "INSERT INTO shorturl_banneddomain (domain, banned_at) VALUES ('banned.example', now())"
SECURE = {
    "HTTPS": "on",
    "BEHIND_PROXY": "on",
    "ALLOWED_HOSTS": "localhost,127.0.0.1",
}


class Both(NamedTuple):
    """Two services on one database: on the event loop, and Django alone."""

    loop: str
    plain: str
    database: Any

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Return the answer of both, which is the same."""
        ways = [ask(url, method, path, **headers) for url in (self.loop, self.plain)]
        assert ways[0] == ways[1]
        return ways[0]

    def hits(self, key: str) -> tuple[int, int]:
        """Return the hits of a link, and the sum of its visits."""
        with self.database.cursor() as cursor:
            cursor.execute("SELECT hits FROM shorturl_shorturl WHERE key = %s", [key])
            hits = cursor.fetchone()[0]
            cursor.execute(
                "SELECT sum(jsonb_array_length(kinds)) FROM shorturl_recentvisits WHERE key = %s",
                [key],
            )
            return hits, int(cursor.fetchone()[0] or 0)


def ask(url: str, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body; `X_Y` is the header X-Y."""
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("Host", "localhost")  # the port may be in the answer
        client.request(method, path, headers=named)
        answer = client.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if policy := found.get("content-security-policy"):  # its directives have no order
            found["content-security-policy"] = "; ".join(sorted(policy.split("; ")))
        kept = {name: value for name, value in found.items() if name not in OF_THE_SERVER}
        return answer.status, kept, answer.read()


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnPostgres]:
    with own_postgres() as postgres:
        yield postgres


def both(stack: ExitStack, postgres: OwnPostgres, **environment: str) -> Both:
    settings = {"DATABASE_URL": postgres.url, "WORKERS": "1", **NO_REFUSALS, **environment}
    settings["PGOPTIONS"] = "-c lock_timeout=1s"
    loop = stack.enter_context(serving(**settings)).url
    plain = stack.enter_context(serving(ROOT, *PLAIN, **settings)).url
    database = stack.enter_context(closing(psycopg2.connect(postgres.url)))
    database.autocommit = True
    with database.cursor() as cursor:
        cursor.execute("TRUNCATE shorturl_shorturl, shorturl_banneddomain CASCADE")
        cursor.executemany(LINKS, TARGETS.items())
        cursor.execute(OVER)
        cursor.execute(FORWARDS)
        cursor.execute(BAN)
    return Both(loop, plain, database)


@pytest.fixture(scope="module")
def services(postgres: OwnPostgres) -> Iterator[Both]:
    with ExitStack() as stack:
        yield both(stack, postgres)


@pytest.fixture(scope="module")
def secure(postgres: OwnPostgres) -> Iterator[Both]:
    with ExitStack() as stack:
        yield both(stack, postgres, **SECURE)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/spring", 302),
        ("/spring?utm_source=a", 302),
        ("/%73pring", 302),
        ("/idn", 302),
        ("/odd", 302),
        ("http://localhost/spring", 302),
        ("/spring.", 302),
        ("/spring%E2%80%9D).", 302),
        ("/spring.html", 404),
        ("/spring....", 404),
        ("/unknown.", 404),
        ("/used,", 410),
        ("/script", 400),
        ("/host", 400),
        ("/gone", 404),
        ("/unknown", 404),
        ("/used", 410),
        ("/over", 410),
        ("/banned", 403),
        ("/near", 302),
        ("/spring+", 200),
        ("/banned+", 403),
        ("/used+", 410),
        ("/unknown+", 404),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/Admin", 404),
    ],
)
def test_get_and_head(services: Both, method: str, path: str, status: int) -> None:
    before = services.hits("spring")
    for _ in range(2):  # the first redirect of a process, and a later one
        assert services.ask(method, path)[0] == status
    counts = method == "GET" and path.endswith(("pring", "pring?utm_source=a"))
    after = services.hits("spring")
    assert [now - then for now, then in zip(after, before, strict=True)] == [4 * counts] * 2


@pytest.mark.parametrize("end", [".", ",", ")", "!", "%20", "%E2%80%A6", "%E3%80%82", "%22)."])
def test_the_end_of_a_sentence_leads_to_the_short_url(services: Both, end: str) -> None:
    assert services.ask("GET", f"/spring{end}?a=b")[1]["location"] == "/spring?a=b"


@pytest.mark.parametrize(
    "header",
    [
        {"Sec_Purpose": "prefetch;prerender"},
        {"Purpose": "prefetch"},
        {"X_Moz": "Prefetch"},
    ],
)
def test_a_prefetch_neither_counts_nor_shows_the_target(
    services: Both, header: dict[str, str]
) -> None:
    for key in ("spring", "once"):
        before = services.hits(key)
        for method in ("GET", "HEAD"):
            status, headers, body = services.ask(method, f"/{key}", **header)
            assert (status, headers["cache-control"]) == (503, "no-store")
            assert "location" not in headers
            assert b"example.com" not in body
        assert services.hits(key) == before
    before = services.hits("spring")
    assert services.ask("GET", "/spring", **dict.fromkeys(header, "other"))[0] == 302
    assert services.hits("spring") == tuple(hits + 2 for hits in before)


def test_a_service_whose_redirects_fail_is_not_ready(services: Both) -> None:
    """A full disk fails statements that write. Each service is ready again after a redirect."""

    def are_ready(status: int) -> bool:
        answers = {ask(url, "GET", "/readyz")[0] for url in (services.loop, services.plain)}
        return answers == {status}

    assert are_ready(200)
    with services.database.cursor() as cursor:
        cursor.execute(FULL_DISK)
        for _ in range(following.FAILURES):
            assert services.ask("GET", "/spring")[0] == 503
        assert services.ask("GET", "/unknown")[0] == 404
        until(lambda: are_ready(503))
        reason = b"the last redirects failed; the log says why"
        assert reason in services.ask("GET", "/readyz")[2]
        cursor.execute("DROP TRIGGER full_disk ON shorturl_shorturl")
    assert services.ask("GET", "/spring")[0] == 302
    until(lambda: are_ready(200))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/forwards?b=%C3%BC&c", "https://example.com/?a=1&b=%C3%BC&c#there"),
        ("/forwards", "https://example.com/?a=1#there"),
        ("/forwards?", "https://example.com/?a=1#there"),
        (f"/forwards?{'b' * 2_000}", "https://example.com/?a=1#there"),  # it would be too long
        ("/spring?b=2", "https://example.com/"),
    ],
)
def test_the_query_of_a_short_url_is_forwarded_if_the_link_says_so(
    services: Both, method: str, path: str, location: str
) -> None:
    for _ in range(2):
        assert services.ask(method, path)[1]["location"] == location


def test_forwarding_begins_within_the_time_that_its_absence_is_remembered(services: Both) -> None:
    assert services.ask("GET", "/near?b=2")[1]["location"] == TARGETS["near"]
    with services.database.cursor() as cursor:
        cursor.execute("UPDATE shorturl_shorturl SET forward_query = true WHERE key = 'near'")
    forwarded, url = f"{TARGETS['near']}?b=2", services.loop
    wait_until(lambda: ask(url, "GET", "/near?b=2")[1]["location"] == forwarded, "no query", 10)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_another_method(services: Both, method: str) -> None:
    assert services.ask(method, "/spring")[0] == 405


def test_another_host_counts_nothing(services: Both) -> None:
    before = services.hits("spring")
    assert services.ask("GET", "/spring", Host="example.net")[0] == 400
    assert services.hits("spring") == before


def test_a_client_that_prefers_json(services: Both) -> None:
    status, headers, body = services.ask("GET", "/used", Accept="application/json")
    assert (status, headers["content-type"]) == (410, "application/json")
    assert b'"state": "used up"' in body


def test_a_hit_of_a_banned_target_counts(services: Both) -> None:
    """The statement that returns the target counts the hit."""
    before = services.hits("banned")
    _, headers, body = services.ask("GET", "/banned", Accept="application/json")
    assert "location" not in headers
    assert b'"state": "banned"' in body
    services.ask("HEAD", "/banned")
    assert services.hits("banned") == tuple(hits + 2 for hits in before)


def test_a_link_with_one_use_is_followed_once(services: Both) -> None:
    """Neither HEAD nor the preview shows its target."""
    status, headers, _ = services.ask("HEAD", "/once")
    assert (status, services.hits("once")) == (302, (0, 0))
    assert "location" not in headers
    assert b"/secret" not in services.ask("GET", "/once+")[2]
    statuses = [ask(url, "GET", "/once")[0] for url in (services.loop, services.plain)]
    assert statuses == [302, 410]


def test_a_locked_row_is_a_503_soon_and_no_other_key_waits(services: Both) -> None:
    with closing(psycopg2.connect(services.database.dsn)) as other, other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM shorturl_shorturl WHERE key = 'locked' FOR UPDATE")
        status, headers, body = services.ask("GET", "/locked")
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"Too many requests follow this short URL" in body
        assert services.ask("GET", "/spring")[0] == 302
    assert services.ask("GET", "/locked")[0] == 302


@pytest.mark.parametrize(
    ("said", "status"),
    [("https", 302), ("https, http", 302), ("http, https", 301), ("http", 301), ("", 301)],
)
def test_the_scheme_is_what_the_proxy_says(secure: Both, said: str, status: int) -> None:
    for _ in range(2):
        found, headers, _ = secure.ask("GET", "/spring", X_Forwarded_Proto=said)
        assert found == status
        assert ("strict-transport-security" in headers) is (status == 302)
    assert secure.ask("GET", "/unknown", X_Forwarded_Proto="https")[0] == 404
    assert secure.ask("GET", "/healthz")[0] == 200


@pytest.mark.django_db  # a request of Django closes old connections
@pytest.mark.parametrize("host", ["example.com", "EXAMPLE.com:80", "[::1]", "bücher.example"])
@pytest.mark.parametrize("rest", ["", "/a-b_c.~d/%20?e=%C3%A4&f=g+h#i", "/ä", "?{a}", "/[b]#|^`"])
def test_the_location_is_as_django_encodes_it(host: str, rest: str) -> None:
    target_url = f"https://{host}{rest}"
    expected = HttpResponseRedirect(location(target_url)).headers["Location"]
    assert following.location(target_url) == expected


def test_which_hosts_are_allowed(settings: Any) -> None:
    settings.ALLOWED_HOSTS = [".example.com"]
    is_ours.cache_clear()
    assert is_ours("a.example.com:80")
    assert not is_ours("example.net")
    assert not is_ours("")
    is_ours.cache_clear()
