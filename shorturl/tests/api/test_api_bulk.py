"""POST /api/links/bulk"""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from shorturl import operations
from shorturl.api import bulk_links
from shorturl.bulk import BULK_MAX
from shorturl.links.validators import TARGET_URL_MAX_LENGTH
from shorturl.models import ShortUrl
from shorturl.pages import views
from shorturl.tests.callers import JSON, OTHER, TARGET

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]

PATH = views.BULK_PATH
LINES = f"""{{"target_url": "{TARGET}"}}
{{"target_url": "{TARGET}", "key": "mine"}}
{{"target_url": "{TARGET}", "key": "theirs"}}
{{"target_url": "{OTHER}", "key": "mine"}}
{{"target_url": "ftp://example.com"}}

{{"target_url": """
ROWS = f"""target_url,key
{TARGET},
{TARGET},mine
{TARGET},theirs
{OTHER},mine
ftp://example.com,
{TARGET}
"""


def post(client: Client, body: Any, content_type: str = JSON, **query: str) -> Any:
    return client.post(PATH, body, content_type=content_type, query_params=query)


def outcomes(response: Any) -> list[tuple[int, str]]:
    """Return the status of each entry, with its key or its error code."""
    items = response.json()["items"]
    assert [item["number"] for item in items] == list(range(1, len(items) + 1))
    return [
        (item["status"], item["link"]["key"] if "link" in item else code(item["error"]))
        for item in items
    ]


def code(error: Any) -> str:
    assert error["detail"].endswith(".")
    return error["errors"][0]["code"] if "errors" in error else ""


def test_creates_all_of_them(client: Client, django_assert_num_queries: Any) -> None:
    body = {"links": [{"target_url": f"{TARGET}{number}"} for number in range(BULK_MAX)]}
    body["links"][7]["key"] = "mine"
    with django_assert_num_queries(3):  # with BEGIN and COMMIT, which here are a savepoint's
        response = post(client, body)
    assert response.status_code == 201
    items = response.json()["items"]
    assert items[7]["link"]["short_url"] == "http://testserver/mine"
    assert [item["link"]["target_url"] for item in items] == [
        link["target_url"] for link in body["links"]
    ]
    assert client.get(f"/{items[-1]['link']['key']}")["Location"] == f"{TARGET}{BULK_MAX - 1}"


@pytest.mark.parametrize(
    ("content_type", "body"), [(bulk_links.JSON_LINES, LINES), (bulk_links.CSV, ROWS)]
)
def test_entry_by_entry_and_all_or_nothing(client: Client, content_type: str, body: str) -> None:
    ShortUrl.objects.create(key="theirs", target_url=OTHER)
    at_fault = [(409, "taken"), (409, "duplicate"), (422, "scheme"), (422, "malformed")]
    response = post(client, body, content_type)  # all or nothing
    assert response.status_code == 409
    assert response.json()["detail"] == (
        "Nothing was created, because of 3 of 6 entries. The first is number 4: "
        "key: Entry 2 has the key 'mine', too: choose another for this one."
    )
    # The body shows that nothing will be created, so the other keys are not looked up.
    assert outcomes(response) == [(424, "")] * 3 + at_fault[1:]
    assert ShortUrl.objects.count() == 1

    response = post(client, body, content_type, atomic="false")
    assert response.status_code == 207
    drawn = ShortUrl.objects.exclude(key__in=["theirs", "mine"]).get().key
    assert outcomes(response) == [(201, drawn), (201, "mine"), *at_fault]
    targets = dict(ShortUrl.objects.values_list("key", "target_url"))
    assert targets == {"theirs": OTHER, "mine": TARGET, drawn: TARGET}


def test_atomic_in_the_body_overrides_the_query(client: Client) -> None:
    ShortUrl.objects.create(key="theirs", target_url=OTHER)
    links = [{"target_url": TARGET, "key": "mine"}, {"target_url": TARGET, "key": "theirs"}]
    response = post(client, {"links": links, "atomic": True}, atomic="false")
    assert (response.status_code, outcomes(response)) == (409, [(424, ""), (409, "taken")])
    response = post(client, {"links": links, "atomic": False})
    assert (response.status_code, outcomes(response)) == (207, [(201, "mine"), (409, "taken")])


@pytest.mark.parametrize(
    ("content_type", "body", "status", "says"),
    [
        (JSON, '{"links": []}', 422, "links: List should have at least 1 item"),
        (JSON, json.dumps({"links": [1] * (BULK_MAX + 1)}), 422, "at most 1000 items"),
        (bulk_links.JSON_LINES, "1\n" * (BULK_MAX + 1), 422, "at most 1000 items"),
        (bulk_links.CSV, "key\n" + "a\n" * (BULK_MAX + 1), 422, "at most 1000 items"),
        (JSON, '{"links": [1], "atomic": "no"}', 422, "atomic: Input should be a valid boolean."),
        (JSON, "[]", 422, "body: It must be a JSON object."),
        (JSON, '{"links": [', 400, "The body is not JSON: Expecting value at character 12."),
        (bulk_links.CSV, "key,url\n", 422, "header: 'url' is not a column: use target_url, key"),
        (bulk_links.CSV, "key,key\n", 422, "header: The column 'key' occurs more than once"),
        (bulk_links.CSV, 'key\n"a', 400, "is not CSV: unexpected end of data at line 2."),
        (bulk_links.CSV, b"key\n\xff", 400, "is not CSV: it is not UTF-8 at byte 5."),
        (bulk_links.JSON_LINES, "\n", 422, "at least 1 item"),
        ("text/plain", "a", 415, "JSON, JSON lines or CSV: send it with 'Content-Type: "),
    ],
)
def test_a_body_that_is_rejected_as_a_whole(
    client: Client, content_type: str, body: str, status: int, says: str
) -> None:
    response = post(client, body, content_type)
    assert response.status_code == status
    assert says in response.json()["detail"]
    assert not ShortUrl.objects.exists()


def test_invalid_entries(client: Client) -> None:
    links = [1, {"target_url": TARGET, "hits": 5}, {"target_url": "http://testserver/a"}, {}]
    response = post(client, {"links": links, "atomic": False})
    refused = [(422, code) for code in ("model_type", "extra_forbidden", "own_host", "missing")]
    assert (response.status_code, outcomes(response)) == (422, refused)  # nothing was created


@pytest.mark.parametrize("atomic", [True, False])
def test_no_key_is_free(client: Client, monkeypatch: pytest.MonkeyPatch, atomic: bool) -> None:
    none_free = [ShortUrl.KeySpaceExhausted([])]
    monkeypatch.setattr(operations, "create_many", lambda *args, **options: none_free)
    response = post(client, {"links": [{"target_url": TARGET}], "atomic": atomic})
    assert (response.status_code, outcomes(response)) == (503, [(503, "")])
    assert response["Retry-After"] == "5"


def test_the_longest_body(client: Client, settings: Settings) -> None:
    assert reverse("api:create_links") == PATH
    target = "https://example.com/".ljust(TARGET_URL_MAX_LENGTH, "a")
    body = {"links": [{"target_url": target}] * BULK_MAX}
    assert post(client, body).status_code == 201
    too_long = "a" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
    response = post(client, too_long)
    assert response.status_code == 413
    assert response.json()["detail"] == "The body is too large: send at most 2,097,152 bytes."
