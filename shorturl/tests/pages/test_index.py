"""GET and POST /: the form that creates a short URL."""

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl import operations
from shorturl.links import keys
from shorturl.models import ShortUrl

TARGET_URL = "https://example.com/a/long/page"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def test_creates_and_goes_to_the_page_of_the_short_url(client: Client) -> None:
    assertNotContains(client.get("/"), "aria-invalid")
    response = client.post("/", {"target_url": f" {TARGET_URL}\n", "key": ""})
    short_url = ShortUrl.objects.get()
    assert short_url.target_url == TARGET_URL  # without the surrounding white space
    assert len(short_url.key) == 7
    # After a 303 the browser sends a GET, and a reload creates nothing.
    assertRedirects(response, f"/{short_url.key}/stats", status_code=303)


def test_the_message_belongs_to_its_field(client: Client) -> None:
    response = client.post("/", {"key": "spring"})
    assertContains(response, "Enter the target URL, for example", status_code=422)
    assertContains(response, "<title>Error: Shorten a URL · shorturl</title>", status_code=422)
    assertContains(response, 'value="spring"', status_code=422)
    form = response.context["form"]
    # The cursor is in the field with the error alone.
    assert "autofocus" in str(form["target_url"])
    assert "autofocus" not in str(form["key"])
    assert not ShortUrl.objects.exists()


def test_taken_custom_key_is_a_conflict_and_not_retried(client: Client) -> None:
    operations.create("https://example.com/first", key="spring")
    response = client.post("/", {"target_url": TARGET_URL, "key": " spring "})
    assertContains(response, "The key &#x27;spring&#x27; is taken.", status_code=409)
    assertContains(response, f'value="{TARGET_URL}"', status_code=409)
    assert ShortUrl.objects.get().target_url == "https://example.com/first"
    ShortUrl.objects.get().delete()
    response = client.post("/", {"target_url": TARGET_URL, "key": "spring"})
    message = "is taken: it was deleted, and a deleted key is never reused. Choose another key"
    assertContains(response, message, status_code=409)


def test_full_key_space(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    operations.create(TARGET_URL, key="full")
    monkeypatch.setattr(keys, "draw", lambda length: "full")
    response = client.post("/", {"target_url": TARGET_URL})
    assertContains(response, "10 of length 10. Choose a custom key", status_code=503)
    assertContains(response, f'value="{TARGET_URL}"', status_code=503)


def test_other_methods_and_a_form_from_elsewhere_are_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    for method in ("PUT", "OPTIONS"):
        response = client.generic(method, "/")
        assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, POST")
    response = client.post("/", {"target_url": TARGET_URL})
    assertContains(response, "The form was not accepted", status_code=403)
    assert not ShortUrl.objects.exists()
