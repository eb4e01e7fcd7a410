"""The endpoints of load tests: every strategy over HTTP, in a key space, and clear errors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from lab.load import views
from shorturl import creating, keys, resolving
from shorturl.models import ShortUrl
from shorturl.resolving import compare_and_swap

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]
EXPRESSION = {"f_expression", "f_expression_full_save"}  # their objects do not know the number


@pytest.fixture
def client() -> Client:
    """A client without a CSRF token, which no program has."""
    return Client(enforce_csrf_checks=True)


def post(client: Client, path: str, content: Any, content_type: str = "application/json") -> Any:
    return client.post(f"/lab/{path}", content, content_type=content_type)


@pytest.fixture
def space(client: Client) -> str:
    """An open key space."""
    return str(post(client, "spaces", {"key_length": 1}).json()["space"])


def create(client: Client, space: str, strategy: str = "on_conflict", **changes: Any) -> Any:
    content = {"space": space, "round": 0, "target_url": f"https://{space}.invalid/a"}
    return post(client, f"create/{strategy}", {**content, **changes})


def detail(response: Any, status: int) -> str:
    """Return the sentence of an error answer, which must be one."""
    assert response.status_code == status
    return str(response.json()["detail"])


# --- What goes well ------------------------------------------------------------------------------


def test_a_new_space_says_what_there_is(client: Client) -> None:
    response = post(client, "spaces", {"key_length": 2})
    assert response.status_code == 201
    answer = response.json()
    assert answer["targets"] == f"https://{answer['space']}.invalid/"
    assert answer["creating"] == {n: s.verdict.value for n, s in creating.STRATEGIES.items()}
    assert answer["resolving"] == {n: s.verdict.value for n, s in resolving.STRATEGIES.items()}
    assert answer["service"] == {"creating": "on_conflict", "resolving": "update_returning"}
    assert answer["versions"].keys() == {"Python", "Django", "gunicorn", "PostgreSQL"}


@pytest.mark.parametrize("strategy", creating.STRATEGIES)
def test_create(client: Client, space: str, strategy: str) -> None:
    response = create(client, space, strategy, round=10)
    assert response.status_code == 201
    short_url = ShortUrl.objects.get()
    target_url = f"https://{space}.invalid/a"
    assert response.json() == {"key": short_url.key, "target_url": target_url}
    assert short_url.target_url == target_url
    if creating.STRATEGIES[strategy].draws_keys:
        assert short_url.key.startswith(f"{space}-a-")


@pytest.mark.parametrize("strategy", resolving.STRATEGIES)
@pytest.mark.django_db(transaction=True)  # repeatable_read must be the whole transaction
def test_resolve(client: Client, space: str, strategy: str) -> None:
    key = create(client, space).json()["key"]
    for hits in (1, 2):
        response = client.get(f"/lab/resolve/{strategy}/{key}")
        assert response.status_code == 302
        assert response["Location"] == f"https://{space}.invalid/a"
        assert response["Cache-Control"] == "private, no-store"
        assert response.get("X-Hits") == (None if strategy in EXPRESSION else str(hits))
        assert ShortUrl.objects.get().hits == hits


def test_a_request_costs_no_more_statements_than_one_of_the_service(
    client: Client, space: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    key = create(client, space).json()["key"]
    with django_assert_num_queries(1):
        client.get(f"/lab/resolve/update_returning/{key}")
    with django_assert_num_queries(1):
        create(client, space, target_url=f"https://{space}.invalid/b", round=1)


def test_edit_changes_the_target_and_nothing_else(
    client: Client, space: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    key = create(client, space).json()["key"]
    client.get(f"/lab/resolve/naive/{key}")
    with django_assert_num_queries(1):
        response = post(client, f"edit/{key}", {"target_url": f"https://{space}.invalid/b"})
    assert response.status_code == 200
    short_url = ShortUrl.objects.get()
    assert (short_url.target_url, short_url.hits) == (f"https://{space}.invalid/b", 1)


def test_the_links_of_a_space_page_by_page(
    client: Client, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE", 2)
    other = post(client, "spaces", {"key_length": 1}).json()["space"]
    create(client, other)
    expected = []
    for number in range(3):
        target_url = f"https://{space}.invalid/{number}"
        answer = create(client, space, "permuted_sequence", target_url=target_url).json()
        expected.append([answer["key"], target_url, 0])
    listed: list[Any] = []
    path = f"/lab/spaces/{space}/links"
    while path:
        page = client.get(path).json()
        assert len(page["links"]) <= 2
        listed += page["links"]
        path = page["next"]
    assert listed == expected


def test_a_space_is_removed_with_its_links(client: Client, space: str) -> None:
    create(client, space)
    create(client, space, "permuted_sequence")
    response = client.delete(f"/lab/spaces/{space}")
    assert response.json() == {"removed": 2}
    assert not ShortUrl.objects.exists()
    assert "There is no key space" in detail(client.get(f"/lab/spaces/{space}/links"), 404)


# --- Strategies that fail ------------------------------------------------------------------------


def failure(response: Any, status: int, exception: str, verdict: str) -> str:
    """Return the message of the answer to a request whose strategy raised that."""
    assert response.status_code == status
    answer = response.json()
    assert (answer["exception"], answer["verdict"]) == (exception, verdict)
    return str(answer["message"])


def test_a_collision(client: Client, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "draw", lambda length: "x" * length)
    create(client, space)
    message = failure(create(client, space, "naive"), 500, "IntegrityError", "wrong")
    assert f"({space}-0-x)" in message


def test_no_key_left(client: Client, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "draw", lambda length: "x")
    create(client, space)
    response = create(client, space, "savepoint")
    message = failure(response, 503, "KeySpaceExhausted", "right")
    assert "Every candidate key was taken" in message


def test_a_competitor_who_is_always_first(
    client: Client, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = create(client, space).json()["key"]
    monkeypatch.setattr(compare_and_swap, "ATTEMPTS", 0)
    response = client.get(f"/lab/resolve/compare_and_swap/{key}")
    failure(response, 503, "Contended", "right")


def test_a_key_that_nobody_has(client: Client, space: str) -> None:
    failure(client.get(f"/lab/resolve/naive/{space}-0-none"), 404, "DoesNotExist", "wrong")


def test_a_deleted_link(client: Client, space: str) -> None:
    key = create(client, space).json()["key"]
    ShortUrl.objects.get().delete()
    failure(client.get(f"/lab/resolve/f_expression/{key}"), 404, "DoesNotExist", "right")


def test_a_database_that_is_away() -> None:
    response = views.failure(OperationalError("gone\n"), resolving.STRATEGIES["naive"])
    assert response.status_code == 503
    assert json.loads(response.content)["message"] == "gone"


# --- Calls that are wrong ------------------------------------------------------------------------


def test_an_unknown_strategy_names_those_there_are(client: Client, space: str) -> None:
    text = detail(create(client, space, "nope"), 404)
    assert text == f"There is no strategy 'nope'; there are {', '.join(creating.STRATEGIES)}."
    text = detail(client.get(f"/lab/resolve/nope/{space}-0-a"), 404)
    assert text.endswith(f"{', '.join(resolving.STRATEGIES)}.")


@pytest.mark.parametrize("length", [0, 4])
def test_a_key_length_out_of_range(client: Client, length: int) -> None:
    text = detail(post(client, "spaces", {"key_length": length}), 422)
    assert text == f"key_length: {length} is out of range: use 1 to 3 characters."


@pytest.mark.parametrize("length", [None, "2", 2.0, True])
def test_a_key_length_that_is_no_number(client: Client, length: Any) -> None:
    text = detail(post(client, "spaces", {"key_length": length}), 422)
    assert text == "key_length: it must be a whole number."


@pytest.mark.parametrize("round_", [-1, 4096])
def test_a_round_out_of_range(client: Client, space: str, round_: int) -> None:
    text = detail(create(client, space, round=round_), 422)
    assert text == f"round: {round_} is out of range: use 0 to 4095."


@pytest.mark.parametrize("name", ["lab-aaaaa", "nope", "lab-aaaaa%00"])
def test_an_unknown_space(client: Client, name: str) -> None:
    assert detail(create(client, name), 404).startswith("There is no key space")
    assert detail(client.get(f"/lab/spaces/{name}/links"), 404).startswith("There is no key space")
    assert detail(client.delete(f"/lab/spaces/{name}"), 404).startswith("There is no key space")


@pytest.mark.parametrize(
    "target_url",
    ["https://example.com/", "", "/a", "https://{}.invalid.example.com/", "https://{}.invalid/\n"],
)
def test_a_target_outside_of_the_space(client: Client, space: str, target_url: str) -> None:
    target_url = target_url.format(space)
    detail(create(client, space, target_url=target_url), 422)
    detail(create(client, space, target_url=f"https://{space}.invalid/{'a' * 100}"), 422)
    key = create(client, space).json()["key"]
    detail(post(client, f"edit/{key}", {"target_url": target_url}), 422)


@pytest.mark.parametrize("target_url", [None, 1, [], "https://lab-aaaaa.invalid/\0", "\ud800"])
def test_a_target_that_is_none(client: Client, space: str, target_url: Any) -> None:
    detail(create(client, space, target_url=target_url), 422)


def test_the_links_of_the_service_are_out_of_reach(client: Client) -> None:
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    assert "is in no key space" in detail(client.get("/lab/resolve/naive/mine"), 404)
    assert "is in no key space" in detail(post(client, "edit/mine", {"target_url": "x"}), 404)
    assert ShortUrl.objects.get().hits == 0


def test_an_edit_of_nothing(client: Client, space: str) -> None:
    target_url = f"https://{space}.invalid/"
    text = detail(post(client, f"edit/{space}-0-none", {"target_url": target_url}), 404)
    assert text == f"There is no short URL '{space}-0-none'."


def test_a_body_that_is_no_json_object(client: Client) -> None:
    assert detail(post(client, "spaces", "[]"), 400) == "The body must be a JSON object."
    assert detail(post(client, "spaces", "{"), 400).startswith("The body is not JSON")
    detail(post(client, "spaces", "key_length=1", "application/x-www-form-urlencoded"), 415)


@pytest.mark.parametrize("after", ["x", "-1", "9" * 30])
def test_a_page_that_is_none(client: Client, space: str, after: str) -> None:
    detail(client.get(f"/lab/spaces/{space}/links?after={after}"), 422)


# --- Off -----------------------------------------------------------------------------------------

ASK = """
import django
django.setup()
from django.test import Client
ask = Client(headers={"host": "localhost"}).generic
print([ask(method, f"/lab/{path}").status_code for method, path in (
    ("POST", "spaces"), ("GET", "create/naive"), ("POST", "resolve/naive/lab-aaaaa-0-a"),
)])
"""


@pytest.mark.parametrize(
    ("lab", "load", "statuses"),
    [
        ("off", "off", [404, 404, 404]),
        ("on", "off", [404, 404, 404]),
        ("on", "on", [415, 405, 405]),
    ],
)
def test_it_is_there_only_where_it_is_on(lab: str, load: str, statuses: list[int]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "SHORTURL_LAB": lab,
            "SHORTURL_LAB_LOAD": load,
            "SHORTURL_LOCAL": "on",
            "DATABASE_URL": "postgres:///unused",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stdout == f"{statuses}\n", ended.stderr
