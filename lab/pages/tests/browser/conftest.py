"""The browser and its watch are those of the service's own pages."""

from shorturl.tests.browser.conftest import (  # noqa: F401 - fixtures are found by their names here
    browser,
    new_page,
    page,
    problems,
    service,
    target_url,
)
