"""/api/openapi.json and /api/docs, for programs and for people."""

from typing import Any

import pytest
from django.test import Client


@pytest.fixture
def description(client: Client) -> Any:
    return client.get("/api/openapi.json").json()


def operations(description: Any) -> dict[str, Any]:
    return {
        operation["operationId"]: operation
        for path in description["paths"].values()
        for operation in path.values()
    }


def test_the_operations_have_lasting_names(description: Any) -> None:
    """Clients are generated from these."""
    assert {
        (method, path): operation["operationId"]
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    } == {
        ("post", "/api/links"): "create_link",
        ("get", "/api/links"): "list_links",
        ("get", "/api/links/{key}"): "get_link",
        ("patch", "/api/links/{key}"): "change_link",
        ("delete", "/api/links/{key}"): "delete_link",
    }


def test_everything_is_explained(description: Any) -> None:
    assert "Authorization: Bearer" in description["info"]["description"]
    for operation in operations(description).values():
        assert operation["summary"]
        assert operation["description"]


def test_all_errors_look_the_same(description: Any) -> None:
    for operation in operations(description).values():
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Error"}


def test_who_may_call_what(description: Any) -> None:
    security = {name: op["security"] for name, op in operations(description).items()}
    staff: list[Any] = [{"Token": []}, {"StaffLogin": []}]
    assert security == {
        "create_link": [{"Token": []}, {"Login": []}, {}],
        "list_links": staff,
        "get_link": [{"Token": []}, {}],
        "change_link": staff,
        "delete_link": staff,
    }
    assert description["components"]["securitySchemes"].keys() == {"Token", "Login", "StaffLogin"}


def test_neither_asks_the_database(client: Client) -> None:
    """There is no mark for the database here, so a statement would be an error."""
    assert client.get("/api/docs").status_code == 200
    assert client.get("/api/openapi.json").status_code == 200
