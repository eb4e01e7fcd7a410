"""What the form refuses: statuses and messages. test_validators.py has more URLs."""

from urllib.parse import urlencode

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings
from pytest_django.asserts import assertContains

from shorturl.models import ShortUrl

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=x"
DISPOSITION = b'--x\r\nContent-Disposition: form-data; name="target_url"\r\n\r\n'
TARGET_URL = "https://example.com/page"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("public")]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target_url", "https://a/\r\nSet-Cookie: a=b", "contains a line break at position 11"),
        ("target_url", "http://testserver/abc", "is an address of this service"),
        ("key", '"><script>', "is not a valid key: use 1 to 64 letters, digits, '-' and '_'"),
    ],
)
def test_invalid_fields(client: Client, field: str, value: str, message: str) -> None:
    response = client.post("/", {"target_url": TARGET_URL, "key": "", field: value})
    assert response.status_code == 422
    assert message in " ".join(response.context["form"].errors[field])
    assert "Set-Cookie" not in response.headers
    assert b"<script>" not in response.content
    assert not ShortUrl.objects.exists()


@pytest.mark.parametrize(
    ("content_type", "body", "status", "says"),
    [
        (FORM, b"target_url=https://a/%ff", 422, "contains a replacement character at position 11"),
        (FORM, b"target_url=https://a/\xff", 400, "The form is not encoded in UTF-8."),
        (MULTIPART, DISPOSITION + b"https://a/\xff\r\n--x--\r\n", 422, "a replacement character"),
        (f"{FORM}; charset=latin-1", b"target_url=https://a/", 400, "</html>"),
        # The standard has forms in UTF-8 only, so an unknown charset is ignored.
        (f"{FORM}; charset=no-such-charset", b"target_url=https://a/", 303, ""),
        ("multipart/form-data; boundary=\xff", b"x", 400, "</html>"),
        ("", b"", 422, "</html>"),
    ],
)
def test_encodings_of_the_form(
    client: Client, content_type: str, body: bytes, status: int, says: str
) -> None:
    response = client.generic("POST", "/", body, content_type=content_type)
    assertContains(response, says, status_code=status)


def test_bodies_around_the_limit(client: Client, settings: Settings) -> None:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    response = client.generic("POST", "/", b"a" * (limit + 1), FORM)
    assertContains(response, "too large: send at most 1,000,000 bytes", status_code=413)
    body = f"target_url={TARGET_URL}&key="
    body += "a" * (limit - len(body))
    assert client.post("/", body, content_type=FORM).status_code == 422
    file = SimpleUploadedFile("a.txt", b"a" * limit)  # which is thrown away
    assert client.post("/", {"target_url": TARGET_URL, "file": file}).status_code == 303
    # A character outside the basic plane is sent as twelve characters.
    body = urlencode({"target_url": "https://example.com/" + "🐘" * 660, "key": "long"})
    assert client.post("/", body, content_type=FORM).status_code == 303
    assert client.get("/long")["Location"].endswith("%F0%9F%90%98")


def test_too_many_fields_or_files(client: Client) -> None:
    fields = "&".join(f"a{number}=" for number in range(1_001))
    files = {f"f{number}": SimpleUploadedFile("a", b"a") for number in range(101)}
    for response in (client.post("/", fields, content_type=FORM), client.post("/", files)):
        assertContains(response, "The request has too many fields", status_code=413)
