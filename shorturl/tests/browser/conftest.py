"""Chromium against Django's live server; a problem that it reports fails the test.

Without Chromium these tests are skipped, or fail in CI (CI=true).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

ARGUMENTS = [
    "--no-sandbox",  # root has none
    "--disable-background-networking",
    # No request of a page leaves this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.*",
]

# Milliseconds, generous for a busy machine.
expect.set_options(timeout=20_000)

NewPage = Callable[..., Page]
LogIn = Callable[..., None]
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started once for the tests of a file."""
    # The shell is the same browser without windows and takes half the processor time.
    installed = map(shutil.which, ("chromium-headless-shell", "chromium"))
    path = os.environ.get("CHROMIUM") or next(filter(None, installed), None)
    if not path:
        reason = "Chromium is not installed: apt-get install chromium, or set CHROMIUM to its path"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        # Django refuses its ORM in a thread with a running event loop, such as Playwright's.
        # A test runs only while that loop waits.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
            yield browser
            browser.close()


@pytest.fixture(autouse=True)
def service(transactional_db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service where visitors may create, and which leaves no connection behind."""
    settings.SHORTURL_PUBLIC_CREATE = True
    # The live server has a thread for each connection of the browser. With persistent database
    # connections, each thread would keep one, and the test database could not be dropped.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)


class TargetPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>Target</title><link rel=icon href=data:,><h1>Target</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def target_url() -> Iterator[str]:
    # A link may not lead to the service's own host, at any port.
    with ThreadingHTTPServer(("127.0.0.2", 0), TargetPage) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.2:{server.server_port}/a/long/page"
        server.shutdown()


@pytest.fixture
def problems() -> Iterator[list[str]]:
    """Problems that the browser reports; there must be none at the end."""
    problems: list[str] = []
    yield problems
    assert not problems


@pytest.fixture
def new_page(
    browser: Browser, live_server: LiveServer, target_url: str, problems: list[str]
) -> Iterator[NewPage]:
    """Open a page in a new window; takes the options of Browser.new_context()."""
    contexts: list[BrowserContext] = []
    foreign = target_url.removesuffix("/a/long/page")

    def on_request(request: Any) -> None:
        if not request.url.startswith((f"{live_server.url}/", f"{foreign}/", "data:")):
            problems.append(f"request to {request.url}")

    def on_response(response: Any) -> None:
        if response.status >= 400 and response.request.resource_type != "document":
            problems.append(f"{response.status} for {response.url}")

    def on_message(message: Any) -> None:
        failed = message.text.startswith("Failed to load resource")  # see on_response
        if message.type in ("error", "warning") and not failed:
            problems.append(message.text)

    def new_page(**options: Any) -> Page:
        context = browser.new_context(base_url=live_server.url, **options)
        contexts.append(context)
        context.on("request", on_request)
        context.on("response", on_response)
        context.on("console", on_message)
        context.on("weberror", lambda error: problems.append(str(error.error)))
        return context.new_page()

    yield new_page
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: NewPage) -> Page:
    return new_page()


@pytest.fixture
def log_in(page: Page, client: Client, live_server: LiveServer, settings: Settings) -> LogIn:
    def log_in(user: User, page: Page = page) -> None:
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        cookie = {"name": name, "value": client.cookies[name].value, "url": live_server.url}
        page.context.add_cookies([cookie])  # type: ignore[list-item]

    return log_in


def check_width(page: Page, width: int) -> None:
    """Check that nothing on the page is wider than a window of this width."""
    page.set_viewport_size({"width": width, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") == width, page.url


def find_barriers(page: Page, **options: Any) -> list[str]:
    """Return what axe-core finds that keeps people from using the page."""
    page.evaluate(AXE)
    violations: list[str] = page.evaluate(
        """async options => {
            const result = await axe.run({ resultTypes: ["violations"], ...options });
            if (!result.passes.length) return ["axe-core looked at nothing"];
            return result.violations
                .flatMap(({ id, nodes }) => nodes.map(
                    (node) => `${id}: ${node.html} ${node.failureSummary}`));
        }""",
        options,
    )
    return violations
