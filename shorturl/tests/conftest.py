"""What the tests of the form and of the API share."""

import pytest
from pytest_django import Settings


@pytest.fixture
def public(settings: Settings) -> None:
    """Let anybody create."""
    settings.SHORTURL_PUBLIC_CREATE = True
