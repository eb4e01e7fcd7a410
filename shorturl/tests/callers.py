"""Helpers that several tests share."""

import re
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client

from shorturl.models import ApiToken, ShortUrl
from shorturl.strategies.table import Strategy

TARGET, OTHER = "https://example.com/page", "https://example.org/other"
JSON = "application/json"


def create_link(key: str = "known", **values: Any) -> ShortUrl:
    return ShortUrl.objects.create(**{"key": key, "target_url": TARGET, **values})


def make_token(**fields: Any) -> str:
    """Store an API token, and return its text."""
    token = ApiToken(**{"name": f"token{ApiToken.objects.count()}", **fields})
    token.set_random_text()
    token.save()
    return token.text


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def with_token(**fields: Any) -> Client:
    """Return the client of a program with a new token."""
    return Client(headers=bearer(make_token(**fields)))


def is_accepted(token: str) -> bool:
    status = Client().get("/api/links", headers=bearer(token)).status_code
    assert status in (200, 401)
    return status == 200


def user(*permissions: str, staff: bool = False) -> User:
    person = User.objects.create_user(f"user{User.objects.count()}", is_staff=staff)
    person.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return person


def create(client: Client, body: Any = None, **kwargs: Any) -> Any:
    """Create a link by the API, to TARGET unless the body says otherwise."""
    body = {"target_url": TARGET} if body is None else body
    return client.post("/api/links", body, content_type=JSON, **kwargs)


def bulk(client: Client, *links: Any, **kwargs: Any) -> Any:
    return client.post("/api/links/bulk", {"links": links}, content_type=JSON, **kwargs)


def change(client: Client, key: str, body: Any, **kwargs: Any) -> Any:
    return client.patch(f"/api/links/{key}", body, content_type=JSON, **kwargs)


def errors(response: Any) -> dict[str, str]:
    """Return the fields that an answer of the API names as wrong, each with its error code."""
    return {error["field"]: error["code"] for error in response.json()["errors"]}


class CommandOutput(NamedTuple):
    output: str
    errors: str


def run(command: str, *arguments: str) -> CommandOutput:
    """Return what a command of manage.py writes to standard output and to standard error."""
    out, err = StringIO(), StringIO()
    call_command(command, *arguments, stdout=out, stderr=err, no_color=True)
    return CommandOutput(out.getvalue(), err.getvalue())


def text(response: Any) -> str:
    """Return the text of a page without its tags."""
    assert response.status_code == 200
    return without_tags(response.text)


def without_tags(html: str) -> str:
    """Return the text of HTML in one line, with a space for each tag."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def form_values(response: Any) -> dict[str, str]:
    """Return what a browser sends of an edit form in which nothing was changed.

    A hidden field has the initial value of each field, and both are sent.
    """
    hidden = r'<input type="hidden" name="initial-(\w+)"(?: value="([^"]*)")?'
    initial = dict(re.findall(hidden, response.content.decode()))
    assert initial
    return initial | {f"initial-{name}": value for name, value in initial.items()}


def call_and_close_connection(function: Callable[[], Any]) -> Any:
    """Call the function, and close the database connection of this thread."""
    try:
        return function()
    finally:
        connection.close()


def for_strategies(strategies: Iterable[Strategy]) -> pytest.MarkDecorator:
    """Return a mark that runs a test with each of the strategies."""

    def name(strategy: Strategy) -> str:
        return strategy.function.__module__.removeprefix("shorturl.strategies.")

    return pytest.mark.parametrize("strategy", list(strategies), ids=name)
