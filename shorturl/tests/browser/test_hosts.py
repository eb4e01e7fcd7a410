"""What the service makes of a URL is what a browser makes of it."""

from django.test import Client
from playwright.sync_api import Page

from shorturl import operations
from shorturl.tests.test_redirect import LOCATIONS
from shorturl.tests.test_validators import HOSTS

HREF = "url => new URL(url).href"
HOSTNAME = "host => new URL(`https://${host}/`).hostname"


def test_hosts(page: Page) -> None:
    for host, encoded in HOSTS.items():
        bracketed = f"[{host}]" if ":" in host else host
        assert page.evaluate(HOSTNAME, bracketed).strip("[]") == encoded, host


def test_locations(page: Page, client: Client) -> None:
    """A browser goes to the same place, whether it is given the target or the Location."""
    for number, target_url in enumerate(LOCATIONS):
        operations.create(target_url, key=str(number))
        location = client.get(f"/{number}")["Location"]
        assert page.evaluate(HREF, target_url) == page.evaluate(HREF, location)
