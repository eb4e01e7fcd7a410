"""From an invitation to a token: what a new user does, in a browser and by keyboard."""

import re
from io import StringIO
from urllib.parse import urlsplit

from django.core.management import call_command
from playwright.sync_api import Page, expect

from shorturl.tests.browser.conftest import barriers, fits

PASSWORD = "a new one for today"


def test_an_invited_user_chooses_a_password_and_makes_and_revokes_a_token(page: Page) -> None:
    out = StringIO()
    call_command("invite", "ann", stdout=out, stderr=StringIO())
    page.goto(urlsplit(out.getvalue().strip()).path)
    assert barriers(page) == []
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password confirmation").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Your password is set.")).to_be_visible()

    page.get_by_label("Username").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Account of ann").press("Enter")
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("Can delete").press("Space")
    page.get_by_role("button", name="Make a token").press("Enter")
    token = page.get_by_label("Token")
    expect(token).to_have_value(re.compile(r"shorturl_[\w-]{43}"))
    assert barriers(page) == []
    fits(page, 320)
    headers = {"Authorization": f"Bearer {token.input_value()}"}
    assert page.request.get("/api/links", headers=headers).status == 200

    page.get_by_role("link", name="Account", exact=True).press("Enter")
    expect(page.get_by_text("may create, read, edit;")).to_be_visible()
    page.get_by_role("button", name="Revoke laptop").press("Enter")
    expect(page.get_by_text("The token “laptop” is revoked.")).to_be_visible()
    assert page.request.get("/api/links", headers=headers).status == 401
