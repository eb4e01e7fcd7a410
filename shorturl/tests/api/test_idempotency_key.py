"""The Idempotency-Key of POST /api/…; lab/races has its races."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.backends.utils import CursorWrapper
from django.test import Client, RequestFactory

from shorturl import operations
from shorturl.exceptions import KeySpaceExhausted
from shorturl.limits import quotas
from shorturl.models import ApiToken, IdempotencyRecord, ShortUrl
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.exhibits.models import erase
from shorturl.tests.callers import (
    JSON,
    OTHER,
    TARGET,
    bearer,
    bulk,
    create,
    create_link,
    errors,
    make_token,
    user,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]

BODY = {"target_url": TARGET}


def send(
    client: Client, body: Any = BODY, key: str = "a-key", remote: str = "127.0.0.1", **headers: str
) -> Any:
    headers = {"Idempotency-Key": key, **headers}
    return create(client, body, headers=headers, REMOTE_ADDR=remote)


def compared_parts(response: Any) -> tuple[Any, ...]:
    """Return what the response to a repeated request has to have in common with the first one."""
    headers = [response.get(name) for name in ("Location", "Content-Type", "Cache-Control")]
    return response.status_code, response.content, headers


def test_a_repeated_request_is_carried_out_once_and_gets_the_same_answer(client: Client) -> None:
    first = send(client)
    assert first.status_code == 201
    assert compared_parts(send(client)) == compared_parts(first)
    quoted = send(client, key='"a-key"')  # as in the draft of the standard
    assert compared_parts(quoted) == compared_parts(first)
    assert ShortUrl.objects.count() == 1
    assert send(client, key="x" * 255).json()["key"] != first.json()["key"]
    many = [bulk(client, BODY, headers={"Idempotency-Key": "many"}) for _ in range(2)]
    assert many[0].status_code == 201
    assert compared_parts(many[0]) == compared_parts(many[1])
    again = client.get(first["Location"], headers={"Idempotency-Key": "a-key"})
    assert (again.status_code, again.json()["hits"]) == (200, 0)  # other methods ignore it


def test_an_error_is_not_kept(client: Client) -> None:
    """The key stays free, and the same request is carried out later."""
    create_link("spring")
    taken, invalid = {**BODY, "key": "spring"}, {"target_url": "nothing"}
    answers = [send(client, body) for body in (taken, invalid, b"{")]
    assert [answer.status_code for answer in answers] == [409, 422, 400]
    assert not IdempotencyRecord.objects.exists()
    erase(ShortUrl.objects.all())
    assert send(client, taken).status_code == 201


def test_another_request_with_that_key_is_refused(client: Client) -> None:
    send(client)
    with_one_more_space = f'{{"target_url":  "{TARGET}"}}'.encode()  # the bytes are compared
    for other_body in ({"target_url": OTHER}, with_one_more_space):
        response = send(client, other_body)
        assert (response.status_code, errors(response)) == (422, {"Idempotency-Key": "reused"})
        assert "'a-key' was sent with another request before. Send" in response.json()["detail"]
    sent: dict[str, Any] = {"data": BODY, "headers": {"Idempotency-Key": "a-key"}}
    for path, content_type in [("/api/links?a", JSON), ("/api/links", f"{JSON}; charset=utf-8")]:
        assert client.post(path, content_type=content_type, **sent).status_code == 422
    assert ShortUrl.objects.count() == 1


def test_each_caller_has_separate_keys(client: Client) -> None:
    mine, yours = bearer(make_token()), bearer(make_token())
    keys = {send(client, **headers).json()["key"] for headers in (mine, yours, {})}
    assert len(keys) == 3
    assert send(client, **mine).json()["key"] in keys  # the answer that was kept
    assert send(client, Authorization="Bearer shorturl_nobodys").status_code == 401
    other_network = send(client, remote="198.51.100.7")
    assert other_network.json()["key"] not in keys
    for account in (user(), user()):  # of the first network
        client.force_login(account)
        key = send(client).json()["key"]
        assert key not in keys
        keys.add(key)
    can_create = {"can_read": False, "can_edit": False, "can_delete": False}
    assert send(client, **bearer(make_token(**can_create))).status_code == 201
    ApiToken.objects.update(can_create=False)
    assert send(client, **mine).status_code == 403


def test_a_request_that_is_still_in_progress_is_a_409(
    client: Client, other_session: CursorWrapper
) -> None:
    # Another session stands in for the first request, and holds the lock of its caller and key.
    caller = quotas.spender_of(AnonymousUser(), RequestFactory().post("/"))
    locked_text = [f"{caller} a-key"]
    other_session.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", locked_text)
    response = send(client)
    assert (response.status_code, errors(response)) == (409, {"Idempotency-Key": "in_progress"})
    assert "'a-key' is still in progress. Send the request again" in response.json()["detail"]
    other_session.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", locked_text)
    assert send(client).status_code == 201


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
