"""The browser fixtures are those of the service's pages."""

from shorturl.tests.browser.conftest import (  # noqa: F401 - fixtures are found by their names here
    browser,
    new_page,
    page,
    problems,
    service,
    target_url,
)
