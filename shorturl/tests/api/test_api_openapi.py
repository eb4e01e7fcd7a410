"""/api/openapi.json, which does not ask the database; browser/test_admin_pages.py shows it."""

from typing import Any

import pytest
from django.test import Client


@pytest.fixture
def description(client: Client) -> Any:
    return client.get("/api/openapi.json").json()


def test_the_operations_keep_their_names_and_security(description: Any) -> None:
    """Clients are generated from them."""
    own: list[Any] = [{"Token": []}, {"Login": []}]
    assert {
        (method, path): (operation["operationId"], operation["security"])
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    } == {
        ("post", "/api/links"): ("create_link", [{"Token": []}, {"Login": []}, {}]),
        ("post", "/api/links/bulk"): ("create_links", [{"Token": []}, {"Login": []}, {}]),
        ("get", "/api/links"): ("list_links", own),
        ("get", "/api/links/{key}"): ("get_link", [{"Token": []}, {"Login": []}, {}]),
        ("get", "/api/links/{key}/visits"): ("list_visits", [*own, {}]),
        ("patch", "/api/links/{key}"): ("change_link", own),
        ("delete", "/api/links/{key}"): ("delete_link", own),
    }


def test_operations_are_described_and_share_one_error_schema(description: Any) -> None:
    """A bulk has its own schema, which also has the errors of each entry."""
    schemas = description["components"]["schemas"]
    assert schemas["BulkError"]["properties"].keys() == {"detail", "errors", "items"}
    assert "Authorization: Bearer" in description["info"]["description"]
    for methods in description["paths"].values():
        for operation in methods.values():
            assert operation["description"]
            is_bulk = operation["operationId"] == "create_links"
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    schema = response["content"]["application/json"]["schema"]
                    kind = "BulkError" if is_bulk and status in ("409", "422", "503") else "Error"
                    assert schema == {"$ref": f"#/components/schemas/{kind}"}
