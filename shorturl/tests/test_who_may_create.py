"""Who may create: anybody when SHORTURL_PUBLIC_CREATE is set, else who has logged in."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl import operations
from shorturl.models import ShortUrl

FORM = {"target_url": "https://example.com/", "key": "spring"}
PASSWORD = "correct horse battery staple"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def private(settings: Settings) -> None:
    settings.SHORTURL_PUBLIC_CREATE = False


def test_visitor_may_follow_and_not_create(client: Client) -> None:
    operations.create("https://example.com/", key="known")
    assert client.get("/known").status_code == 302
    response = client.get("/")
    assertContains(response, '<a class="button" href="/login">Log in</a>')
    assertNotContains(response, "id_target_url")
    response = client.post("/", FORM)
    assertContains(response, "Log in to create a short URL.", status_code=403)
    assertContains(response, 'href="/login"', status_code=403)
    assert ShortUrl.objects.get().key == "known"


def test_a_user_logs_in_and_creates_and_logs_out(client: Client) -> None:
    User.objects.create_user("somebody", password=PASSWORD)
    response = client.get("/login", {"next": "/spring/stats"})
    assertContains(response, "<title>Log in · shorturl</title>")
    assertContains(response, '<input type="hidden" name="next" value="/spring/stats">')
    response = client.post("/login", {"username": "somebody", "password": "wrong"})
    assertContains(response, "Please enter a correct username and password.")
    assertContains(response, "<title>Error: Log in · shorturl</title>")
    response = client.post("/login", {"username": "somebody", "password": PASSWORD}, follow=True)
    assertRedirects(response, "/")
    assertContains(response, "<span>somebody</span>")
    assertContains(response, "id_target_url")
    assertRedirects(client.post("/", FORM), "/spring/stats", status_code=303)
    assertRedirects(client.post("/logout"), "/")
    assertNotContains(client.get("/"), "somebody")
