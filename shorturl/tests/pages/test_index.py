"""GET and POST /: the form that creates a short URL, and who may use it."""

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl.links import keys
from shorturl.models import ShortUrl
from shorturl.tests.callers import OTHER, TARGET, create_link

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=x"
DISPOSITION = b'--x\r\nContent-Disposition: form-data; name="target_url"\r\n\r\n'

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


def test_the_form_creates_a_link_and_redirects_to_its_page(client: Client) -> None:
    page = client.get("/")
    assertNotContains(page, "aria-invalid")  # no field is wrong before it is sent
    typed = 'autocapitalize="none" autocomplete="off" autocorrect="off" spellcheck="false"'
    assertContains(page, typed, count=3)  # target, key and tags: no phone changes them
    assertContains(page, 'type="url"')
    assert b'min="1"' in page.content  # of the limit
    assert b'min="-' not in page.content  # the least number of the limit's column
    response = client.post("/", {"target_url": f" {TARGET}\n", "key": ""})
    short_url = ShortUrl.objects.get()
    assert short_url.target_url == TARGET  # without the surrounding white space
    assert len(short_url.key) == 7
    # After a 303 the browser sends a GET, and a reload creates nothing.
    assertRedirects(response, f"/{short_url.key}/stats", status_code=303)


def test_a_visitor_follows_links_and_must_log_in_to_create_one(
    client: Client, settings: Settings
) -> None:
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = False
    create_link()
    assert client.get("/known").status_code == 302
    page = client.get("/")
    assertContains(page, 'href="/account/login/">Log in')
    assertNotContains(page, "id_target_url")
    page = client.post("/", {"target_url": TARGET})
    assertContains(page, "Log in to create a short URL.", status_code=403)
    assertContains(page, 'href="/account/login/"', status_code=403)
    assert ShortUrl.objects.get().key == "known"


def test_a_login_is_refused_with_a_wrong_password_and_lets_a_user_create_links(
    client: Client, settings: Settings
) -> None:
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = False
    form = {"username": "somebody", "password": "correct horse battery staple"}
    User.objects.create_user(**form)
    page = client.get("/account/login/", {"next": "/known/stats"})
    assertContains(page, "<title>Log in · shorturl")
    assertContains(page, '<input type="hidden" name="next" value="/known/stats">')
    page = client.post("/account/login/", {**form, "password": "wrong"})
    assertContains(page, "Please enter a correct username and password.")
    assertContains(page, "<title>Error: Log in · shorturl")
    page = client.post("/account/login/", form, follow=True)
    assertRedirects(page, "/")
    assertContains(page, 'href="/account">Account')
    created = client.post("/", {"target_url": TARGET, "key": "spring"})
    assertRedirects(created, "/spring/stats", status_code=303)
    assertRedirects(client.post("/account/logout/"), "/")
    assertNotContains(client.get("/"), "somebody")


def test_a_visitor_who_may_not_see_hits_is_told_the_address(
    client: Client, settings: Settings
) -> None:
    settings.SHORTURL_PUBLIC_STATS = False
    response = client.post("/", {"target_url": TARGET, "key": "spring"}, follow=True)
    assert response.redirect_chain == [("/", 303)]
    assertContains(response, 'href="http://testserver/spring"')


def test_a_target_url_is_required_and_the_key_stays_in_the_form(client: Client) -> None:
    response = client.post("/", {"key": "spring"})
    assertContains(response, "Enter the target URL, for example", status_code=422)
    assertContains(response, "<title>Error: Shorten a URL · shorturl", status_code=422)
    assertContains(response, 'value="spring"', status_code=422)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target_url", "https://a/\r\nSet-Cookie: a=b", "contains a line break at position 11"),
        ("key", '"><script>', "is not a valid key: use 1 to 64 letters, digits, "),
    ],
)
def test_invalid_fields_are_refused(client: Client, field: str, value: str, message: str) -> None:
    response = client.post("/", {"target_url": TARGET, "key": "", field: value})
    assertContains(response, message, status_code=422)
    assert "Set-Cookie" not in response.headers
    assert not ShortUrl.objects.exists()


def test_a_taken_custom_key_is_a_conflict(client: Client) -> None:
    create_link("spring", target_url=OTHER)
    response = client.post("/", {"target_url": TARGET, "key": " spring "})
    assertContains(response, "The key &#x27;spring&#x27; is taken.", status_code=409)
    assertContains(response, f'value="{TARGET}"', status_code=409)
    assert ShortUrl.objects.get().target_url == OTHER


def test_a_full_key_space_is_a_503(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for length in range(7, 11):  # ten keys of each of these lengths are tried
        create_link("k" * length)
    monkeypatch.setattr(keys, "draw", lambda length: "k" * length)
    response = client.post("/", {"target_url": TARGET})
    assertContains(response, "10 of length 10. Choose a custom key", status_code=503)
    assertContains(response, f'value="{TARGET}"', status_code=503)


def test_other_methods_and_a_form_from_elsewhere_are_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    for method in ("PUT", "OPTIONS"):
        response = client.generic(method, "/")
        assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, POST")
    response = client.post("/", {"target_url": TARGET})
    assertContains(response, "The form was not accepted", status_code=403)
    assert not ShortUrl.objects.exists()


@pytest.mark.parametrize(
    ("content_type", "body", "status", "says"),
    [
        (FORM, b"target_url=https://a/%ff", 422, "contains a replacement character at position 11"),
        (FORM, b"target_url=https://a/\xff", 400, "The form is not encoded in UTF-8."),
        (MULTIPART, DISPOSITION + b"https://a/\xff\r\n--x--\r\n", 422, "a replacement character"),
        ("multipart/form-data; boundary=\xff", b"x", 400, "Bad request"),
    ],
    ids=["encoded bytes", "bytes", "bytes in a part", "a malformed boundary"],
)
def test_a_form_is_encoded_in_utf_8(
    client: Client, content_type: str, body: bytes, status: int, says: str
) -> None:
    response = client.generic("POST", "/", body, content_type=content_type)
    assertContains(response, says, status_code=status)


def test_a_form_has_at_most_1_000_000_bytes_1000_fields_and_100_files(client: Client) -> None:
    body = f"target_url={TARGET}&key=".ljust(1_000_000, "a")
    assert client.post("/", body, content_type=FORM).status_code == 422  # only the key is too long
    page = client.post("/", body + "a", content_type=FORM)
    assertContains(page, "too large: send at most 1,000,000 bytes", status_code=413)
    fields = "&".join(f"a{number}=" for number in range(1_001))
    files = {f"f{number}": SimpleUploadedFile("a", b"a") for number in range(101)}
    for page in (client.post("/", fields, content_type=FORM), client.post("/", files)):
        assertContains(page, "The request has too many fields", status_code=413)
