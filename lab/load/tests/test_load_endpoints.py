"""The endpoints of load tests: every strategy over HTTP in a key space, and their errors.

A key space is the prefix of all keys of one run, here `lab-aaaaa`.
"""

import runpy
from datetime import timedelta
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from lab import urls
from lab.load import key_spaces, views
from shorturl.exceptions import InFlight
from shorturl.links import keys
from shorturl.models import IdempotencyRecord, QuotaUsage, ShortUrl
from shorturl.strategies.resolving import compare_and_swap, in_memory
from shorturl.strategies.table import STRATEGIES

pytestmark = pytest.mark.django_db

SPACE = "/lab/load/lab-aaaaa"
HOT = "lab-aaaaa-hot"
TARGETS = "https://lab-aaaaa.invalid/"


@pytest.fixture
def client() -> Client:
    """A client without a CSRF token, like a program."""
    return Client(enforce_csrf_checks=True)


def run(client: Client, strategy: str, content: Any, space: str = SPACE) -> Any:
    """Run OPERATION/STRATEGY."""
    return client.post(f"{space}/{strategy}", content, content_type="application/json")


def create(client: Client, key: str = HOT, **changes: Any) -> Any:
    content = {"key": key, "target_url": f"{TARGETS}a"}
    return run(client, "creating/on_conflict", {**content, **changes})


def read_links(client: Client) -> Any:
    """Return the links of the key space: key, target URL, hits, max_hits and visits."""
    return client.get(SPACE).json()["links"]


@pytest.mark.parametrize("operation", ["resolving", "recording_visits"])
@pytest.mark.django_db(transaction=True)  # some strategies must be the whole transaction
def test_every_strategy_redirects_and_counts(
    client: Client, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_memory, "Timer", lambda *_: Thread())  # no hit is written later
    monkeypatch.setattr(in_memory, "HITS", in_memory.Hits())
    create(client)
    hits = visits = 0
    for strategy in STRATEGIES[operation]:
        response = run(client, f"{operation}/{strategy}", {"key": HOT})
        assert (response.status_code, response["Location"]) == (302, f"{TARGETS}a"), strategy
        hits += strategy != "in_memory"  # which counts after the answer
        visits += operation == "recording_visits"
        assert read_links(client) == [[HOT, f"{TARGETS}a", hits, None, visits]], strategy


@pytest.mark.parametrize("strategy", STRATEGIES["creating"])
@pytest.mark.django_db(transaction=True)
def test_every_strategy_creates(client: Client, strategy: str) -> None:
    content = {"round": 10, "target_url": f"{TARGETS}a"}
    response = run(client, f"creating/{strategy}", content)
    assert response.status_code == 201
    assert read_links(client) == [[response.json()["key"], f"{TARGETS}a", 0, None, 0]]
    if strategy not in ("timestamp_key", "permuted_sequence"):  # which make keys of their own
        assert response.json()["key"].startswith("lab-aaaaa-10-")


def test_the_services_own_strategies_take_one_statement_each(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for strategy, content in [
        ("creating/on_conflict", {"key": HOT, "target_url": f"{TARGETS}a"}),
        ("resolving/update_returning", {"key": HOT}),
        ("recording_visits/upsert", {"key": HOT}),
    ]:
        with django_assert_num_queries(1):
            assert run(client, strategy, content).status_code in (201, 302)


@pytest.mark.parametrize("strategy", ["idempotency/insert_first", "reusing/on_conflict"])
def test_a_repeated_request_gets_the_same_answer(client: Client, strategy: str) -> None:
    first, second = (run(client, strategy, {"target_url": f"{TARGETS}c"}) for _ in range(2))
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()


def test_a_key_space_is_removed_with_all_that_it_has(client: Client) -> None:
    create(client)
    run(client, "spending/reservation", {"target_url": TARGETS, "spender": 7, "limit": 1})
    run(client, "idempotency/insert_first", {"target_url": TARGETS})
    other = {"key": "lab-bbbbb-a", "target_url": "https://lab-bbbbb.invalid/"}
    run(client, "creating/on_conflict", other, space="/lab/load/lab-bbbbb")
    counter = {"spender": "owner 1", "period": timedelta(days=1), "since": timezone.now()}
    QuotaUsage.objects.create(**counter, spent=1)
    IdempotencyRecord.objects.create(caller="owner 1", key="a", status=201)
    ShortUrl.objects.create(key="mine", target_url="https://example.com/lab-aaaaa.invalid/")
    assert client.delete(SPACE).json() == {"removed": 3}  # one of each operation
    assert QuotaUsage.objects.get().spender == IdempotencyRecord.objects.get().caller == "owner 1"
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
    link = {"key": "lab-aaaaa-1-x"}
    create(client, **link)
    create_again = {"round": 1, "target_url": TARGETS}  # draws x in round 1: the same key
    for strategy, content, status, name in [
        ("creating/naive", create_again, 500, "IntegrityError"),
        ("creating/savepoint", create_again, 503, "KeySpaceExhausted"),
        ("resolving/compare_and_swap", link, 503, "Contended"),
        ("resolving/naive", {"key": "lab-aaaaa-none"}, 410, "DoesNotExist"),
        (
            "spending/row_lock",
            {"target_url": TARGETS, "spender": 1, "limit": 0},
            429,
            "QuotaExceeded",
        ),
    ]:
        response = run(client, strategy, content)
        assert (response.status_code, response.json()["exception"]) == (status, name)
    failing = Mock(side_effect=[InFlight("a"), InterfaceError, OperationalError("gone\n")])
    monkeypatch.setitem(views.OPERATIONS, "resolving", failing)
    responses = [run(client, "resolving/naive", link) for _ in range(3)]
    assert [response.status_code for response in responses] == [409, 503, 503]
    assert responses[-1].json() == {"exception": "OperationalError", "message": "gone"}


@pytest.mark.parametrize(
    ("strategy", "content", "message"),
    [
        ("resolving/nope", {}, "resolving has no strategy nope: naive, atomic_only"),
        ("delivering/naive", {}, "delivering has no strategy naive"),  # no operation of a user
        ("resolving/naive", {"key": "mine"}, "key: begin it with lab-aaaaa-"),
        ("resolving/naive", {"key": 1}, "key: begin it with lab-aaaaa-"),
        ("reusing/on_conflict", {"target_url": "https://a.example/"}, "target_url: begin it with"),
        ("creating/naive", {"target_url": TARGETS, "round": True}, "round: send a whole number"),
        ("creating/naive", {"target_url": TARGETS, "round": -1}, "round: send a whole number"),
        ("creating/naive", {"target_url": TARGETS, "round": 10**7}, "number below 10,000,000"),
        ("creating/naive", "[1]", "Send a JSON object"),
        ("creating/naive", "{", "Send a JSON object"),
    ],
)
def test_a_wrong_request_is_a_400_and_reaches_no_link_of_the_service(
    client: Client, strategy: str, content: Any, message: str
) -> None:
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    response = run(client, strategy, content)
    assert response.status_code == 400
    assert message in response.json()["message"]
    assert ShortUrl.objects.get().hits == 0


def test_other_content_types_methods_and_key_spaces_are_refused(client: Client) -> None:
    path = f"{SPACE}/resolving/naive"
    text = '{"key": "lab-aaaaa-hot"}'
    assert client.post(path, text, content_type="text/plain").status_code == 400
    assert client.get(path).status_code == 405
    assert client.get("/lab/load/mine").status_code == 404  # a key space begins with lab-


@pytest.mark.parametrize("is_local", [True, False])
def test_load_endpoints_and_rooms_exist_only_in_a_local_run(
    settings: Settings, *, is_local: bool
) -> None:
    """Load endpoints create links without a token."""
    settings.LOCAL = is_local
    paths = [str(pattern.pattern) for pattern in runpy.run_path(urls.__file__)["urlpatterns"]]
    for beginning in ("^load/", "room/"):
        assert any(path.startswith(beginning) for path in paths) is is_local
