"""Every error of the API is JSON of one form, as /api/openapi.json says."""

import json
from typing import Any

import pytest
from django.db import IntegrityError
from django.test import Client

from shorturl import operations
from shorturl.bulk import MAX_LINKS
from shorturl.exceptions import Contended, KeySpaceExhausted
from shorturl.models import ShortUrl
from shorturl.tests.callers import JSON, TARGET, create, create_link, errors, user, with_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]

CREATE, BULK, CHANGE = "POST /api/links", "POST /api/links/bulk", "PATCH /api/links/known"
LIST = "GET /api/links?"
CREATE_ERRORS = "400 401 403 409 413 415 422 429 503"
FORBIDDEN, EXTRA = "forbidden_character", "extra_forbidden"
LONG = b"x" * 500
MANY_LONG_FIELDS = {f"{number}" + "x" * 500: 1 for number in range(100)}


def check_error(response: Any, status: int) -> str:
    """Check the form of an error, and return its detail."""
    assert response.status_code == status
    assert response["Content-Type"].startswith(JSON)
    content = response.json()
    assert content.keys() <= {"detail", "errors"}
    detail: str = content["detail"]
    assert detail.endswith(".")
    assert not detail.endswith("..")
    return detail


def new(**values: Any) -> dict[str, Any]:
    return {"target_url": TARGET, **values}


# The request, its body, the codes of the fields that are wrong, and a part of the detail.
UNPROCESSABLE = [
    (CREATE, new(key=""), {"key": "malformed"}, "is not a valid key"),
    (CREATE, new(key="\ud800"), {"key": "malformed"}, "is not a valid key"),
    (CREATE, new(key=7), {"key": "string_type"}, "key: It must be a string."),
    (CREATE, new(target_url=None), {"target_url": "missing"}, "target_url: It is required."),
    (CREATE, new(target_url=7), {"target_url": "string_type"}, "target_url: It must be a string."),
    (CREATE, new(target_url="https://{a} b"), {"target_url": FORBIDDEN}, "percent-encode"),
    (CREATE, new(target_url="https://a/\ud800"), {"target_url": FORBIDDEN}, "leave it out"),
    (
        CREATE,
        {"target_url": "javascript:alert(1)", "key": "api", "hits": 5},
        {"target_url": "scheme", "key": "reserved", "hits": EXTRA},
        "start it with http:// or https://",
    ),
    (CREATE, new(title="a\x07"), {"title": FORBIDDEN}, "U+0007 at position 2: leave it"),
    (CREATE, new(tags=["a|b"]), {"tags": FORBIDDEN}, "contains '|', which separates"),
    # Of a hundred long names the answer repeats the beginnings of ten.
    (
        CREATE,
        new(**MANY_LONG_FIELDS),
        {f"{number}" + "x" * 58 + "…": EXTRA for number in range(10)},
        "leave it out.",
    ),
    (CREATE, new(max_hits=0), {"max_hits": "greater_than_equal"}, "greater than or equal to 1"),
    (CREATE, new(max_hits=2**63), {"max_hits": "less_than_equal"}, "less than or equal to"),
    (CREATE, new(expires_at="2020-01-01T00:00:00Z"), {"expires_at": "past"}, "use a later time"),
    (CREATE, new(expires_at="2099-01-01T00:00:00"), {"expires_at": "timezone_aware"}, "timezone"),
    (CREATE, new(expires_at="9999-12-31T23:59:59-14:00"), {"expires_at": "year"}, "1 to 9999"),
    (CREATE, new(reuse="yes"), {"reuse": "bool_type"}, "reuse: Input should be a valid boolean."),
    (CREATE, new(key="spring", reuse=True), {"reuse": "not_alone"}, "reuse"),
    (CREATE, [], {"body": "model_type"}, "body: It must be a JSON object."),
    (CREATE, b"null", {"body": "model_type"}, "body: It must be a JSON object."),
    (CREATE, b"", {"body": "missing"}, "body: It is required."),
    (BULK, {"links": []}, {"links": "too_short"}, "links: List should have at least 1 item"),
    (BULK, {"links": [1] * (MAX_LINKS + 1)}, {"links": "too_long"}, "at most 1000 items"),
    (BULK, {"links": [new()], "atomic": True}, {"atomic": EXTRA}, "is not known"),
    (BULK, [], {"body": "model_type"}, "body: It must be a JSON object."),
    (CHANGE, {}, {"body": "nothing"}, ""),
    (CHANGE, {"target_url": "javascript:alert(1)"}, {"target_url": "scheme"}, ""),
    (CHANGE, {"target_url": "http://testserver/"}, {"target_url": "own_host"}, ""),
    (CHANGE, {"target_url": f"{TARGET}/2", "key": "mine"}, {"key": EXTRA}, ""),
    (f"{LIST}tag=spring", b"", {"tag": "unknown"}, "not known: use q, tags, state, limit, after."),
    (f"{LIST}tags=a&tags=b", b"", {"tags": "repeated"}, "occurs more than once"),
    (f"{LIST}limit=0", b"", {"limit": "greater_than_equal"}, "greater than or equal to 1"),
    (f"{LIST}limit=101", b"", {"limit": "less_than_equal"}, "less than or equal to 100"),
    (f"{LIST}after=unknown", b"", {"after": "unknown"}, "use the `next` of a page"),
    (f"{LIST}after=%00", b"", {"after": "malformed"}, "is not a valid key"),
    (f"{LIST}q=%00", b"", {"q": FORBIDDEN}, "contains the character U+0000"),
    (f"{LIST}tags={'x' * 51}", b"", {"tags": "too_long"}, "use at most 50"),
    (f"{LIST}state=deleted", b"", {"state": "literal_error"}, "'live', 'expired' or 'used up'"),
]


@pytest.mark.parametrize(("request_line", "body", "codes", "says"), UNPROCESSABLE)
def test_a_422_names_each_field_that_is_wrong_and_changes_nothing(
    request_line: str, body: Any, codes: dict[str, str], says: str
) -> None:
    owner = user()
    link = create_link(owner=owner)
    method, path = request_line.split()
    data = body if isinstance(body, bytes) else json.dumps(body)
    response = with_token(user=owner).generic(method, path, data, JSON)
    assert says in check_error(response, 422)
    assert errors(response) == codes
    assert ShortUrl.objects.get(target_url=TARGET) == link


@pytest.mark.parametrize("path", ["/api/links", "/api/links/bulk"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        # Some JSON parsers take the first value, some the last.
        (b'{"key": "a", "key": "b"}', "has the field 'key' more than once"),
        (b'{"%b": 1, "%b": 2}' % (LONG, LONG), f"has the field '{'x' * 59}…' more than once"),
        (b'{"target_url": ', "is not JSON: Expecting value: line 1 column 16"),
        ('{"target_url": "x"}'.encode("utf-16"), "is not JSON: 'utf-8' codec can't decode byte"),
        (b"[" * 60_000, "is not JSON: maximum recursion depth exceeded"),
        (b'{"target_url": ' + b"9" * 5_000 + b"}", "is not JSON: Exceeds the limit"),
        (b'{"target_url": NaN}', "is not JSON: NaN is not a number"),
    ],
)
def test_a_body_that_is_not_json_is_a_400(
    client: Client, path: str, body: bytes, reason: str
) -> None:
    response = client.post(path, body, content_type=JSON)
    assert check_error(response, 400).startswith(f"The body {reason}")


@pytest.mark.parametrize(
    "key", ["", '""', "ä", '"half', 'in"side', "a b", "a\\", '"\\"', "x" * 256]
)
def test_a_malformed_idempotency_key_is_a_400(client: Client, key: str) -> None:
    response = create(client, headers={"Idempotency-Key": key})
    assert "send 1 to 255 printable ASCII characters" in check_error(response, 400)
    assert not ShortUrl.objects.exists()


@pytest.mark.parametrize("path", ["/api/links", "/api/links/bulk"])
def test_a_body_that_is_too_large_is_a_413(client: Client, path: str) -> None:
    response = client.post(path, b"a" * 1_000_001, content_type=JSON)
    assert check_error(response, 413) == "The body is too large: send at most 1,000,000 bytes."


def test_a_body_of_another_type_is_a_415(client: Client) -> None:
    body = json.dumps({"target_url": TARGET}).encode("utf-8-sig")  # a BOM is no part of it
    for content_type in ("Application/JSON", "application/json; charset=utf-8"):
        assert client.post("/api/links", body, content_type=content_type).status_code == 201
    for content_type in ("", "text/plain", "application/x-www-form-urlencoded"):
        response = client.post("/api/links", body, content_type=content_type)
        assert "Content-Type: application/json" in check_error(response, 415)


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/api", "GET, HEAD"),
        ("/api/links", "GET, HEAD, POST"),
        ("/api/links/bulk", "POST"),
        ("/api/links/known", "DELETE, GET, HEAD, PATCH"),
        ("/api/docs", "GET, HEAD"),
        ("/api/openapi.json", "GET, HEAD"),
    ],
)
def test_a_405_names_the_methods_that_are_allowed(path: str, allow: str) -> None:
    response = Client(enforce_csrf_checks=True).generic("BREW", path)
    assert check_error(response, 405) == f"BREW is not allowed for {path!r}: use {allow}."
    assert response["Allow"] == allow
    long = Client().generic("BREW", "/api/links/" + "a" * 5_000)
    assert len(check_error(long, 405)) < 500


@pytest.mark.parametrize("path", ["/api/", "/api/links/", "/api/%00", "/api/" + "a" * 5_000])
def test_an_unknown_path_is_a_404(path: str) -> None:
    response = Client(enforce_csrf_checks=True).generic("BREW", path)
    assert check_error(response, 404).endswith("see /api/docs.")
    assert len(response.content) < 500
    assert "<html" in Client().get(f"{path[:4]}x").text  # a page: the path is not the API's


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("key", ["KNOWN", "gone", "known%0A", "%00", "a" * 5_000])
def test_a_key_without_a_live_link_is_a_404(api: Client, method: str, key: str) -> None:
    create_link("gone").delete()
    known = create_link()
    body = '{"target_url": "https://a.example"}'
    response = api.generic(method, f"/api/links/{key}", body, JSON)
    assert check_error(response, 404).startswith("There is no short URL '")
    assert len(response.content) < 500
    assert ShortUrl.objects.get(deleted_at=None, target_url=TARGET) == known


@pytest.mark.parametrize(
    ("raised", "status", "says"),
    [
        (RuntimeError("secret"), 500, "An internal error occurred; it has been logged."),
        (IntegrityError("secret"), 500, "An internal error occurred; it has been logged."),
        (Contended("known", 7), 503, "after 7 attempts"),
        (KeySpaceExhausted(iter(())), 503, "Every candidate key was taken. Choose a custom key"),
    ],
)
def test_an_exception_has_a_status_and_tells_no_secret(
    client: Client, monkeypatch: pytest.MonkeyPatch, raised: Exception, status: int, says: str
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise raised

    monkeypatch.setattr(operations, "create", fail)
    client.raise_request_exception = False
    response = create(client)
    detail = check_error(response, status)
    assert says in detail
    assert "secret" not in detail
    assert response.get("Retry-After") == ("5" if status == 503 else None)


def test_openapi_keeps_the_names_the_security_and_the_statuses_of_the_operations(
    client: Client, django_assert_num_queries: Any
) -> None:
    """Programs generate clients from them."""
    with django_assert_num_queries(0):
        description = client.get("/api/openapi.json").json()
    operations = {
        f"{method} {path}": (
            operation["operationId"],
            operation["security"],
            " ".join(sorted(operation["responses"])),
        )
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }
    private: list[Any] = [{"Token": []}, {"Login": []}]
    public: list[Any] = [*private, {}]
    assert operations == {
        "post /api/links": ("create_link", public, f"200 201 {CREATE_ERRORS}"),
        "post /api/links/bulk": ("create_links", public, f"201 {CREATE_ERRORS}"),
        "get /api/links": ("list_links", private, "200 401 403 422 503"),
        "get /api/links/{key}": ("get_link", public, "200 401 403 404 503"),
        "get /api/links/{key}/visits": ("list_visits", public, "200 401 403 404 422 503"),
        "get /api/visits": ("list_visits_of_links", private, "200 401 403 422 503"),
        "patch /api/links/{key}": ("change_link", private, "200 400 401 403 404 413 415 422 503"),
        "delete /api/links/{key}": ("delete_link", private, "204 401 403 404 503"),
    }


def test_openapi_has_the_header_the_lengths_and_the_csv(client: Client) -> None:
    description = client.get("/api/openapi.json").json()
    assert description["info"]["title"] == "URL shortener"
    paths, schemas = description["paths"], description["components"]["schemas"]
    for path in ("/api/links", "/api/links/bulk"):
        assert "Idempotency-Key" in [header["name"] for header in paths[path]["post"]["parameters"]]
    for path in ("/api/visits", "/api/links/{key}/visits"):
        assert {*paths[path]["get"]["responses"]["200"]["content"]} == {JSON, "text/csv"}
    for fields in (schemas["NewLink"]["properties"], schemas["Change"]["properties"]):
        assert [fields[name]["maxLength"] for name in ("target_url", "title")] == [2_000, 512]
    assert schemas["Change"]["minProperties"] == 1
