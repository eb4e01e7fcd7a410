"""The endpoints of load tests: every strategy over HTTP in a key space, and their errors."""

import runpy
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from lab import urls
from lab.load import key_spaces, views
from shorturl.links import keys
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.resolving import compare_and_swap, in_memory
from shorturl.strategies.table import STRATEGIES

pytestmark = pytest.mark.django_db

SPACE = "/lab/load/lab-aaaaa"
TARGETS = "https://lab-aaaaa.invalid/"


@pytest.fixture
def client() -> Client:
    """A client without a CSRF token, like a program."""
    return Client(enforce_csrf_checks=True)


def run(client: Client, strategy: str, content: Any, space: str = SPACE) -> Any:
    """Run OPERATION/STRATEGY."""
    return client.post(f"{space}/{strategy}", content, content_type="application/json")


def create(client: Client, key: str = "lab-aaaaa-hot", **changes: Any) -> Any:
    content = {"key": key, "target_url": f"{TARGETS}a"}
    return run(client, "creating/on_conflict", {**content, **changes})


def read(client: Client, space: str = SPACE) -> Any:
    return client.get(space).json()["links"]


@pytest.mark.parametrize("operation", ["resolving", "recording_visits"])
@pytest.mark.django_db(transaction=True)  # some strategies must be the whole transaction
def test_every_strategy_redirects_and_counts(
    client: Client, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_memory, "Timer", lambda *_: Thread())  # which does nothing
    monkeypatch.setattr(in_memory, "HITS", in_memory.Hits())
    create(client)
    hits = visits = 0
    for strategy in STRATEGIES[operation]:
        response = run(client, f"{operation}/{strategy}", {"key": "lab-aaaaa-hot"})
        assert (response.status_code, response["Location"]) == (302, f"{TARGETS}a"), strategy
        hits += strategy != "in_memory"  # which counts after the answer
        visits += operation == "recording_visits"
        assert read(client) == [["lab-aaaaa-hot", f"{TARGETS}a", hits, None, visits]], strategy


@pytest.mark.parametrize("strategy", STRATEGIES["creating"])
@pytest.mark.django_db(transaction=True)
def test_every_strategy_creates(client: Client, strategy: str) -> None:
    content = {"round": 10, "target_url": f"{TARGETS}a"}
    response = run(client, f"creating/{strategy}", content)
    assert response.status_code == 201
    assert read(client) == [[response.json()["key"], f"{TARGETS}a", 0, None, 0]]
    if strategy not in ("timestamp_key", "permuted_sequence"):
        assert response.json()["key"].startswith("lab-aaaaa-10-")


def test_one_statement_as_in_the_service(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for strategy, content in [
        ("creating/on_conflict", {"key": "lab-aaaaa-hot", "target_url": f"{TARGETS}a"}),
        ("resolving/update_returning", {"key": "lab-aaaaa-hot"}),
        ("recording_visits/upsert", {"key": "lab-aaaaa-hot"}),
    ]:
        with django_assert_num_queries(1):
            assert run(client, strategy, content).status_code in (201, 302)


def test_limits_repetitions_and_reuse(client: Client) -> None:
    create(client, max_hits=1)
    followed = [run(client, "resolving/combined", {"key": "lab-aaaaa-hot"}) for _ in range(2)]
    assert [response.status_code for response in followed] == [302, 410]
    spend = {"target_url": f"{TARGETS}b", "spender": 7, "limit": 1}
    assert run(client, "spending/reservation", spend).status_code == 201
    assert run(client, "spending/reservation", spend).status_code == 429
    assert run(client, "spending/reservation", {**spend, "spender": 8}).status_code == 201
    for strategy in ("idempotency/insert_first", "reusing/on_conflict"):
        content = {"target_url": f"{TARGETS}{strategy}"}
        answers = [run(client, strategy, content) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()


def test_a_key_space_is_removed_with_all_that_it_has(client: Client) -> None:
    create(client)
    run(client, "spending/reservation", {"target_url": TARGETS, "spender": 7, "limit": 1})
    other = {"key": "lab-bbbbb-a", "target_url": "https://lab-bbbbb.invalid/"}
    run(client, "creating/on_conflict", other, space="/lab/load/lab-bbbbb")
    ShortUrl.objects.create(key="mine", target_url="https://example.com/lab-aaaaa.invalid/")
    assert client.delete(SPACE).json() == {"removed": 2}
    assert not QuotaUsage.objects.exists()
    assert {*ShortUrl.objects.values_list("key", flat=True)} == {"lab-bbbbb-a", "mine"}
    ShortUrl.objects.update(created_at=timezone.now() - 2 * key_spaces.MAX_AGE)
    assert client.delete(SPACE).json() == {"removed": 1}  # another run has left it behind
    assert [*ShortUrl.objects.values_list("key", flat=True)] == ["mine"]


@pytest.mark.django_db(transaction=True)
def test_errors_have_the_name_of_the_exception(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "draw", lambda length: "x")
    monkeypatch.setattr(compare_and_swap, "ATTEMPTS", 0)
    create(client, key="lab-aaaaa-1-x")
    create_again = {"round": 1, "target_url": TARGETS}
    link = {"key": "lab-aaaaa-1-x"}
    for strategy, content, status, name in [
        ("creating/naive", create_again, 500, "IntegrityError"),
        ("creating/savepoint", create_again, 503, "KeySpaceExhausted"),
        ("resolving/compare_and_swap", link, 503, "Contended"),
        ("resolving/naive", {"key": "lab-aaaaa-none"}, 410, "DoesNotExist"),
    ]:
        response = run(client, strategy, content)
        assert (response.status_code, response.json()["exception"]) == (status, name)
    failing = Mock(side_effect=OperationalError("gone\n"))
    monkeypatch.setitem(views.OPERATIONS, "resolving", failing)
    response = run(client, "resolving/naive", link)
    assert response.status_code == 503
    assert response.json() == {"exception": "OperationalError", "message": "gone"}


@pytest.mark.parametrize(
    ("strategy", "content", "message"),
    [
        ("resolving/nope", {}, "resolving has no strategy nope: naive, atomic_only"),
        ("resolving/naive", {"key": "mine"}, "key: begin it with lab-aaaaa-"),
        ("resolving/naive", {"key": 1}, "key: begin it with lab-aaaaa-"),
        ("reusing/on_conflict", {"target_url": "https://a.example/"}, "target_url: begin it with"),
        ("creating/naive", {"target_url": TARGETS, "round": True}, "round: send a whole number"),
        ("creating/naive", "[1]", "Send a JSON object"),
        ("creating/naive", "{", "Send a JSON object"),
    ],
)
def test_a_wrong_request(client: Client, strategy: str, content: Any, message: str) -> None:
    """The links of the service are out of reach."""
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    response = run(client, strategy, content)
    assert response.status_code == 400
    assert message in response.json()["message"]
    assert ShortUrl.objects.get().hits == 0


def test_only_json_of_a_program(client: Client) -> None:
    text = '{"key": "lab-aaaaa-hot"}'
    path = f"{SPACE}/resolving/naive"
    assert client.post(path, text, content_type="text/plain").status_code == 400
    assert client.get(path).status_code == 405
    assert client.get("/lab/load/mine").status_code == 404


def test_only_if_it_is_on(settings: Settings) -> None:
    for is_on in (True, False):
        settings.SHORTURL_LAB_LOAD = is_on
        patterns = runpy.run_path(urls.__file__)["urlpatterns"]
        modules = {pattern.callback.__module__ for pattern in patterns}
        assert (views.__name__ in modules) is is_on
