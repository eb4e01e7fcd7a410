"""The endpoints of load tests: every strategy over HTTP in a key space, and their errors."""

import runpy
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from lab import urls
from lab.load import endpoint, views
from shorturl.exceptions import RowLocked
from shorturl.links import keys
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.resolving import compare_and_swap
from shorturl.strategies.table import STRATEGIES

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HEADERS = {"User-Agent": FIREFOX, "Referer": "https://news.example/today"}
EXPRESSION = ["f_expression", "f_expression_full_save"]  # their objects do not have the number


@pytest.fixture
def client() -> Client:
    """A client without a CSRF token, like a program."""
    return Client(enforce_csrf_checks=True)


def post(client: Client, path: str, content: Any, content_type: str = "application/json") -> Any:
    return client.post(f"/lab/{path}", content, content_type=content_type)


@pytest.fixture
def space(client: Client) -> str:
    return str(post(client, "spaces", {"key_length": 1}).json()["space"])


def create(client: Client, space: str, strategy: str = "on_conflict", **changes: Any) -> Any:
    content = {"space": space, "round": 0, "target_url": f"https://{space}.invalid/a"}
    return post(client, f"create/{strategy}", {**content, **changes})


def record(client: Client, key: str, by: str = "upsert") -> Any:
    return client.get(f"/lab/record/{by}/{key}", headers=HEADERS)


def counts(client: Client, space: str) -> list[tuple[int, int]]:
    """Return hits and visits of each link, as they are listed."""
    listed = client.get(f"/lab/spaces/{space}/links").json()["links"]
    return [(hits, visits) for _, _, hits, _, visits in listed]


def detail(response: Any, status: int) -> str:
    """Return the `detail` of an error response with this status."""
    assert response.status_code == status
    return str(response.json()["detail"])


def test_a_new_space_is_returned_with_strategies_and_versions(client: Client) -> None:
    response = post(client, "spaces", {"key_length": 2})
    assert response.status_code == 201
    answer = response.json()
    assert answer["targets"] == f"https://{answer['space']}.invalid/"
    assert answer["operations"] == {
        operation: {name: one.verdict.value for name, one in strategies.items()}
        for operation, strategies in STRATEGIES.items()
    }
    assert answer["records_visits"] is True
    assert answer["versions"].keys() == {"Python", "Django", "gunicorn", "PostgreSQL"}


@pytest.mark.parametrize("strategy", ["savepoint", "permuted_sequence"])
def test_create(client: Client, space: str, strategy: str) -> None:
    response = create(client, space, strategy, round=10)
    assert response.status_code == 201
    short_url = ShortUrl.objects.get()
    target_url = f"https://{space}.invalid/a"
    assert response.json() == {"key": short_url.key, "target_url": target_url}
    assert short_url.target_url == target_url
    if strategy not in ("timestamp_key", "permuted_sequence"):
        assert short_url.key.startswith(f"{space}-a-")


@pytest.mark.parametrize("strategy", [*EXPRESSION, "update_returning", "repeatable_read"])
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


@pytest.mark.parametrize("strategy", STRATEGIES["recording_visits"])
@pytest.mark.django_db(transaction=True)  # combined must be the whole transaction
def test_record(client: Client, space: str, strategy: str) -> None:
    key = create(client, space).json()["key"]
    for hits in (1, 2):
        response = record(client, key, strategy)
        assert response.status_code == 302
        assert response["Location"] == f"https://{space}.invalid/a"
        assert response["Cache-Control"] == "private, no-store"
        assert response["X-Hits"] == str(hits)
        assert counts(client, space) == [(hits, hits)]


def test_each_operation_is_one_statement_as_in_the_service(
    client: Client, space: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    key = create(client, space).json()["key"]
    with django_assert_num_queries(1):
        client.get(f"/lab/resolve/update_returning/{key}")
    with django_assert_num_queries(1):
        response = post(client, f"edit/{key}", {"target_url": f"https://{space}.invalid/b"})
    assert response.status_code == 200
    short_url = ShortUrl.objects.get()
    assert (short_url.target_url, short_url.hits) == (f"https://{space}.invalid/b", 1)
    with django_assert_num_queries(1):
        create(client, space, round=1)
    with django_assert_num_queries(1):
        record(client, key)


def test_a_space_is_listed_page_by_page_and_removed_with_its_links(
    client: Client, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE", 2)
    other = post(client, "spaces", {"key_length": 1}).json()["space"]
    create(client, other)
    expected = []
    for number in range(3):
        target_url = f"https://{space}.invalid/{number}"
        answer = create(client, space, "permuted_sequence", target_url=target_url).json()
        expected.append([answer["key"], target_url, 0, None, 0])
    listed: list[Any] = []
    path = f"/lab/spaces/{space}/links"
    while path:
        page = client.get(path).json()
        assert len(page["links"]) <= 2
        listed += page["links"]
        path = page["next"]
    assert listed == expected
    assert client.delete(f"/lab/spaces/{space}").json() == {"removed": 3}
    assert ShortUrl.objects.count() == 1
    assert "There is no key space" in detail(client.get(f"/lab/spaces/{space}/links"), 404)


def failure(response: Any, status: int, exception: str, verdict: str) -> str:
    assert response.status_code == status
    answer = response.json()
    assert (answer["exception"], answer["verdict"]) == (exception, verdict)
    return str(answer["message"])


def test_a_create_fails(client: Client, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "draw", lambda length: "x")
    create(client, space)
    message = failure(create(client, space, "savepoint"), 503, "KeySpaceExhausted", "right")
    assert "Every candidate key was taken" in message
    message = failure(create(client, space, "naive"), 500, "IntegrityError", "wrong")
    assert f"({space}-0-x)" in message


def test_a_resolve_fails(client: Client, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failure(client.get(f"/lab/resolve/naive/{space}-0-none"), 404, "DoesNotExist", "wrong")
    key = create(client, space).json()["key"]
    monkeypatch.setattr(compare_and_swap, "ATTEMPTS", 0)
    response = client.get(f"/lab/resolve/compare_and_swap/{key}")
    failure(response, 503, "Contended", "right")
    ShortUrl.objects.get().delete()  # f_expression sees the tombstone too
    failure(client.get(f"/lab/resolve/update_returning/{key}"), 404, "DoesNotExist", "right")
    assert endpoint.failure(RowLocked(key), STRATEGIES["resolving"]["naive"]).status_code == 503
    down = endpoint.failure(OperationalError("gone\n"), STRATEGIES["resolving"]["naive"])
    assert down.status_code == 503
    assert b'"message": "gone"' in down.content


def test_what_does_not_exist(client: Client, space: str) -> None:
    for response, operation in (
        (create(client, space, "nope"), "creating"),
        (client.get(f"/lab/resolve/nope/{space}-0-a"), "resolving"),
        (record(client, f"{space}-0-a", "nope"), "recording_visits"),
    ):
        there_are = ", ".join(STRATEGIES[operation])
        assert detail(response, 404) == f"There is no strategy 'nope'; there are {there_are}."
    target_url = f"https://{space}.invalid/"
    text = detail(post(client, f"edit/{space}-0-none", {"target_url": target_url}), 404)
    assert text == f"There is no short URL '{space}-0-none'."
    for name in ("lab-aaaaa", "lab-aaaaa%00"):
        path = f"/lab/spaces/{name}"
        for response in (
            create(client, name),
            client.get(f"{path}/links"),
            client.delete(path),
        ):
            assert detail(response, 404).startswith("There is no key space")
    # The links of the service are out of reach.
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    for response in (
        client.get("/lab/resolve/naive/mine"),
        record(client, "mine"),
        record(client, "lab-aaaaa-0-a"),
        post(client, "edit/mine", {"target_url": "x"}),
    ):
        assert "is in no key space" in detail(response, 404)
    assert ShortUrl.objects.get().hits == 0


def test_a_number_out_of_range(client: Client, space: str) -> None:
    for length in (0, 4):
        text = detail(post(client, "spaces", {"key_length": length}), 422)
        assert text == f"key_length: {length} is out of range: use 1 to 3 characters."
    for number in (-1, 4096):
        text = detail(create(client, space, round=number), 422)
        assert text == f"round: {number} is out of range: use 0 to 4095."
    for after in ("-1", "9" * 30):
        detail(client.get(f"/lab/spaces/{space}/links?after={after}"), 422)
    for wrong in (None, "2", 2.0, True):
        text = detail(post(client, "spaces", {"key_length": wrong}), 422)
        assert text == "key_length: it must be a whole number."


def test_a_target_outside_of_the_space(client: Client, space: str) -> None:
    key = create(client, space).json()["key"]
    inside = f"https://{space}.invalid/"
    wrong = ["https://example.com/", f"https://{space}.invalid.example.com/", f"{inside}\n"]
    for target_url in [*wrong, inside + "a" * 100, inside + "\0", "\ud800", None, 1]:
        detail(create(client, space, target_url=target_url), 422)
        detail(post(client, f"edit/{key}", {"target_url": target_url}), 422)


def test_a_call_that_is_not_json_or_has_another_method(client: Client) -> None:
    assert detail(post(client, "spaces", "[]"), 400) == "The body must be a JSON object."
    assert detail(post(client, "spaces", "{"), 400).startswith("The body is not JSON")
    detail(post(client, "spaces", "key_length=1", "application/x-www-form-urlencoded"), 415)
    assert post(client, "resolve/naive/lab-aaaaa-0-a", {}).status_code == 405


def test_only_if_it_is_on(settings: Settings) -> None:
    for on in (True, False):
        settings.SHORTURL_LAB_LOAD = on
        patterns = runpy.run_path(urls.__file__)["urlpatterns"]
        modules = {each.callback.__module__ for each in patterns}
        assert (views.__name__ in modules) is on


def test_a_spender_has_a_limit_of_links(client: Client, space: str) -> None:
    content = {"space": space, "spender": 7, "limit": 2, "target_url": f"https://{space}.invalid/a"}
    answers = [post(client, "spend/reservation", content).json() for _ in range(3)]
    assert [bool(answer["key"]) for answer in answers] == [True, True, False]
    assert post(client, "spend/reservation", {**content, "spender": 8}).json()["key"]
    assert client.delete(f"/lab/spaces/{space}").json() == {"removed": 3}
    assert not QuotaUsage.objects.exists()
