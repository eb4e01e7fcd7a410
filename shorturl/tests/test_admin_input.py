"""What no page of the admin asks for, and what PostgreSQL or Python would refuse, is no 500."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

LISTS = ["shorturl/shorturl", "shorturl/apitoken", "auth/user", "auth/group"]


@pytest.fixture
def browser(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("staff"))
    return client


# A statement that PostgreSQL refuses would end the transaction of a test.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", LISTS)
def test_a_filter_that_makes_no_sense(browser: Client, path: str) -> None:
    name = {"shorturl/shorturl": "key", "auth/user": "username"}.get(path, "name")
    queries = [f"{name}__regex=(", f"{name}=%00"]
    if path.startswith("shorturl/"):
        queries += ["created_at__year=0", "created_at__gte=9999-12-31+23:59:59-23:59"]
    for query in queries:
        response = browser.get(f"/admin/{path}/?{query}")
        assert (response.status_code, response["Location"]) == (302, f"/admin/{path}/?e=1"), query


@pytest.mark.django_db
@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("selected", ["abc", "\x00"])
def test_a_selection_of_what_is_not_an_id(browser: Client, path: str, selected: str) -> None:
    action = "revoke" if path == "shorturl/apitoken" else "delete_selected"
    data = {"action": action, "_selected_action": ["1", selected]}
    response = browser.post(f"/admin/{path}/", data)
    assert response.status_code == 400
    assert "something that is not an id" in response.content.decode()
