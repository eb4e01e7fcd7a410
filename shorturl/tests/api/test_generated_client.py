"""A client that openapi-python-client generates from /api/openapi.json, used as a program would."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from django.test import Client
from openapi_spec_validator import validate
from pytest_django.live_server_helper import LiveServer

from shorturl.tests.callers import OTHER, TARGET, create_link, make_token

Package = Callable[[str], Any]  # returns a module of the generated client
PACKAGE = "generated_shorturl_client"
# A new value of each field of a change; the last one of each removes it, where it can be removed.
VALUES: dict[str, list[Any]] = {
    "target_url": [OTHER],
    "title": ["New", ""],
    "tags": [["new"], []],
    "max_hits": [9, None],
    "expires_at": [datetime(2099, 1, 1, tzinfo=UTC), None],
    "forward_query": [False],
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Package]:
    """Generate the client, and yield a function that imports one of its modules."""
    folder = tmp_path_factory.mktemp("client")
    description, configuration = folder / "openapi.json", folder / "configuration.yml"
    description.write_bytes(Client().get("/api/openapi.json").content)
    configuration.write_text("post_hooks: []")  # no formatter
    options = ["--meta=none", "--fail-on-warning", f"--config={configuration}"]
    command = [sys.executable, "-m", "openapi_python_client", "generate", f"--path={description}"]
    subprocess.run(
        [*command, f"--output-path={folder / PACKAGE}", *options],
        check=True,
        cwd=folder,
        timeout=120,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield lambda name: import_module(f"{PACKAGE}.{name}")


@pytest.fixture
def program(package: Package, live_server: LiveServer) -> Iterator[Any]:
    """Yield the generated client with a token; it raises for a status that it does not know."""
    settings = {"base_url": live_server.url, "token": make_token()}
    client = package("client").AuthenticatedClient(**settings, raise_on_unexpected_status=True)
    with client:
        yield client


def test_the_description_is_valid_openapi(client: Client) -> None:
    validate(client.get("/api/openapi.json").json())


def test_a_change_by_a_generated_client_leaves_the_other_fields_as_they_were(
    package: Package, program: Any
) -> None:
    change, get = package("api.links.change_link"), package("api.links.get_link")
    models = package("models")
    create_link(
        title="Old",
        tags=["old"],
        max_hits=5,
        expires_at=datetime(2098, 1, 1, tzinfo=UTC),
        forward_query=True,
    )
    link = get.sync("known", client=program).to_dict()
    for name, values in VALUES.items():
        for value in values:
            body = models.Change(**{name: value})
            link[name] = value.isoformat() if isinstance(value, datetime) else value
            assert change.sync("known", client=program, body=body).to_dict() == link
    assert get.sync("known", client=program).to_dict() == link
    fields = package("models.change").Change.__attrs_attrs__
    assert {field.name for field in fields} == VALUES.keys()


def test_a_generated_client_reads_all_pages_and_creates(package: Package, program: Any) -> None:
    create, pages = package("api.links.create_link"), package("api.links.list_links")
    models = package("models")
    for number in range(5):
        body = models.NewLink(target_url=f"{TARGET}/{number}", key=f"key{number}", tags=["a"])
        assert create.sync(client=program, body=body).title == ""
    create_link("untagged")
    keys, after = [], None
    while True:
        page = pages.sync(client=program, limit=2, after=after, tags="a")
        keys += [link.key for link in page.items]
        after = page.next_
        if after is None:
            break
    assert keys == ["key4", "key3", "key2", "key1", "key0"]
