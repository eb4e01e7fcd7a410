"""The Idempotency-Key of POST /api/…; lab/races has its races."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now
from django.test import Client, RequestFactory

from shorturl import operations
from shorturl.exceptions import KeySpaceExhausted
from shorturl.limits import quotas
from shorturl.models import IdempotencyRecord, ShortUrl
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.tests.callers import OTHER, TARGET, bearer, create, fields, for_strategies, run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]

BODY = {"target_url": TARGET}


def send(
    client: Client, body: Any = BODY, key: str = "a-key", remote: str = "127.0.0.1", **headers: str
) -> Any:
    headers = {"Idempotency-Key": key, **headers}
    return create(client, body, headers=headers, REMOTE_ADDR=remote)


def seen(response: Any) -> tuple[Any, ...]:
    headers = [response.get(name) for name in ("Location", "Content-Type", "Cache-Control")]
    return response.status_code, response.content, headers


def test_a_repeated_request_is_carried_out_once_and_gets_the_same_answer(client: Client) -> None:
    first = send(client)
    assert first.status_code == 201
    assert seen(send(client)) == seen(first)
    assert seen(send(client, key='"a-key"')) == seen(first)  # quoted, as in the draft
    assert ShortUrl.objects.count() == 1
    assert send(client, key="another").json()["key"] != first.json()["key"]
    again = client.get(first["Location"], headers={"Idempotency-Key": "a-key"})
    assert (again.status_code, again.json()["hits"]) == (200, 0)  # other methods ignore it


def test_an_error_is_not_kept(client: Client) -> None:
    """The key stays free, and the same request is carried out later."""
    operations.create(TARGET, key="spring")
    taken, invalid = {**BODY, "key": "spring"}, {"target_url": "nothing"}
    answers = [send(client, body) for body in (taken, invalid, b"{")]
    assert [answer.status_code for answer in answers] == [409, 422, 400]
    assert not IdempotencyRecord.objects.exists()
    ShortUrl.objects.all().erase()
    assert send(client, taken).status_code == 201


def test_another_request_with_that_key_is_refused(client: Client) -> None:
    send(client)
    for other in ({"target_url": OTHER}, b'{"target_url":  "' + TARGET.encode() + b'"}'):
        response = send(client, other)
        assert (response.status_code, fields(response)) == (422, {"Idempotency-Key": "reused"})
    assert ShortUrl.objects.count() == 1


def test_each_caller_has_separate_keys(client: Client) -> None:
    mine, yours = bearer(), bearer()
    keys = {send(client, **headers).json()["key"] for headers in (mine, yours, {})}
    assert len(keys) == 3
    assert send(client, **mine).json()["key"] in keys
    refused = send(client, Authorization="Bearer shorturl_nobodys")
    assert refused.status_code == 401
    elsewhere = send(client, remote="198.51.100.7")
    assert elsewhere.json()["key"] not in keys
    assert IdempotencyRecord.objects.count() == 4


def test_a_request_that_is_still_in_progress(client: Client, elsewhere: CursorWrapper) -> None:
    visitor = quotas.spender_of(AnonymousUser(), RequestFactory().post("/"))
    lock = [f"{visitor} a-key"]
    elsewhere.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", lock)
    response = send(client)
    assert (response.status_code, fields(response)) == (409, {"Idempotency-Key": "in_progress"})
    elsewhere.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", lock)
    assert send(client).status_code == 201


@pytest.mark.parametrize("key", ["", '""', "ä", '"half', 'in"side', "a b", "x" * 256, "\x7f"])
def test_a_malformed_key(client: Client, key: str) -> None:
    response = send(client, key=key)
    assert response.status_code == 400
    assert "send 1 to 255 printable ASCII characters" in response.json()["detail"]
    assert not ShortUrl.objects.exists()


def test_a_create_that_fails_is_rolled_back_and_not_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_and_fail(*args: Any, **kwargs: Any) -> ShortUrl:
        on_conflict.create(TARGET, keys=["half"])
        raise KeySpaceExhausted([])

    with monkeypatch.context() as patch:
        patch.setattr(operations, "create", create_and_fail)
        assert send(client).status_code == 503
    assert not ShortUrl.objects.exists()
    assert send(client).status_code == 201


@for_strategies(STRATEGIES["idempotency"].values())
def test_every_strategy_keeps_the_first_answer(strategy: Strategy) -> None:
    def answer(status: int) -> Any:
        return strategy.function("me", "key", "0", work=lambda: {"status": status})

    assert [answer(201).status, answer(422).status] == [201, 201]
    assert IdempotencyRecord.objects.get().status == 201


@for_strategies(STRATEGIES["idempotency"].values())
def test_a_lock_timeout_of_the_work_is_not_a_request_in_progress(
    strategy: Strategy, elsewhere: CursorWrapper
) -> None:
    def work() -> dict[str, int]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '10ms'")
            cursor.execute("SELECT pg_advisory_xact_lock(1)")
        return {"status": 201}

    elsewhere.execute("SELECT pg_advisory_lock(1)")
    with pytest.raises(OperationalError), transaction.atomic():
        strategy.function("me", "key", "0", work=work)


def test_answers_are_kept_for_a_day(client: Client) -> None:
    send(client, key="old")
    send(client, key="new")
    a_day_ago = Now() - timedelta(hours=24)
    IdempotencyRecord.objects.filter(key="old").update(kept_at=a_day_ago - timedelta(seconds=1))
    IdempotencyRecord.objects.filter(key="new").update(kept_at=a_day_ago + timedelta(minutes=1))
    assert run("tidy")[0].startswith("1 answer removed.\n")
    assert IdempotencyRecord.objects.get().key == "new"
