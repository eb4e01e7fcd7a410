"""What users and visitors write is text: no element of a page or e-mail, no formula of a file.

And on each of these pages, what names an element by its id names one that is there.
"""

import csv
import re
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core import mail
from django.test import Client

from shorturl.models import ApiToken, BannedDomain, ShortUrl, Visit
from shorturl.tests.callers import TARGET, make_token, run
from shorturl.tests.visits.recent import add_recent

pytestmark = pytest.mark.django_db

# It ends an attribute in either quotes, and then begins an element.
TEXT = "\"'><x-text>&lt;"
QUOTED = quote(TEXT)
LINK = dict.fromkeys(("target_url", "key", "title", "max_hits", "expires_at"), TEXT)
LINK |= {"tags": f"{TEXT},{TEXT * 4}"}  # the second one is too long
VISIT = Visit(TEXT, TEXT, TEXT, TEXT, '"<', is_bot=False)


def check(response: Any, *, is_shown: bool = True) -> None:
    path, page = response.request["PATH_INFO"], response.content.decode()
    assert "</html>" in page, path
    assert "<x-text" not in page, path
    assert not is_shown or TEXT in unescape(page), path
    assert ('class="errorlist' in page) is ("<title>Error: " in page), path
    assert not re.search(r"<a (?![^>]*href=)", page), path
    for form in re.findall(r'<form[^>]* method="post".*?</form>', page, re.DOTALL):
        assert 'name="csrfmiddlewaretoken"' in form, path
        assert " required" not in form or "novalidate" in form, path  # the messages are ours
    if not path.startswith("/admin/"):  # where Django names a help that it does not show
        ids = re.findall(r'\sid="([^"]*)"', page)
        assert len(ids) == len({*ids}), path
        named = re.findall(r'\s(?:(?:for|list|aria-[a-z]+by)="|href="#)([^"]+)"', page)
        helps = {name for name in ids if name.endswith("_helptext")}
        assert helps <= {*" ".join(named).split()} <= {*ids}, path


@pytest.fixture
def client() -> Client:
    """A superuser whose account, link, token, group and log have the text wherever they have any.

    Only commands and SQL could give an account such a name.
    """
    owner = User.objects.create_superuser(TEXT, f"{TEXT}@example.com")
    owner.first_name = owner.last_name = TEXT
    owner.save()
    add_recent(VISIT, VISIT._replace(is_bot=True))
    target = f"{TARGET}?{TEXT}"
    ShortUrl.objects.update(owner=owner, target_url=target, title=TEXT, tags=[TEXT])
    make_token(name=TEXT, user=owner)
    Group.objects.create(name=TEXT)
    BannedDomain.objects.create(domain=TEXT)
    client = Client()
    client.force_login(owner, "django.contrib.auth.backends.ModelBackend")
    return client


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/links", "/links/known", "/links/known/delete", "/known+", "/known/stats"),
        *("/account", "/links/delete/selected?key=known", f"/account/login/?next={QUOTED}"),
        *(f"{path}?q={QUOTED}&tags={QUOTED}" for path in ("/links", "/links/found/stats")),
        f"/links?state={QUOTED}&order={QUOTED}",
        f"/known/stats?from={QUOTED}&to={QUOTED}&by={QUOTED}",
        f"/links/found/stats?q={QUOTED}&from={QUOTED}",
        # Not all of these show it.
        *("/{}", "/{}/stats", "/known/{}", "/lab/{}", "/lab/?order={}", "/api/docs?{}"),
    ],
)
def test_a_page_shows_markup_as_text(client: Client, path: str) -> None:
    check(client.get(path.format(QUOTED)), is_shown="{}" not in path)


@pytest.mark.parametrize("path", ["/", "/links", "/links/known"])
def test_a_refused_form_shows_what_was_written(client: Client, path: str) -> None:
    response = client.post(path, LINK)
    assert response.status_code == 422
    check(response)


def test_the_pages_of_accounts_show_markup_of_users_as_text(client: Client) -> None:
    name = f"{TEXT}2"
    check(client.post("/account", {"name": name, "can_read": "on"}))  # with the new token
    check(client.post("/account", {"name": name}))  # refused, as it is taken
    token = ApiToken.objects.get(name=name)
    check(client.post(f"/account/tokens/{token.pk}/revoke", follow=True))
    check(client.get("/account/password_change/"))
    check(Client().post("/account/login/", {"username": TEXT}))
    check(Client().post("/account/password_reset/", {"email": TEXT}))


def test_the_admin_shows_markup_of_users_as_text(client: Client) -> None:
    for model in filter(admin.site.is_registered, apps.get_models()):
        path = f"/admin/{model._meta.label_lower.replace('.', '/')}/"
        row = model._default_manager.get()
        check(client.get(f"{path}?q={QUOTED}"), is_shown=model is not BannedDomain)
        for page in ("change", "delete"):
            check(client.get(f"{path}{row.pk}/{page}/"))
        sent = {"_selected_action": row.pk, "owner": TEXT}
        check(client.post(path, {**sent, "action": "delete_selected"}))
        check(client.post(path, {**sent, "action": "hand_over"}, follow=True))
        if model is not BannedDomain:
            check(client.post(f"{path}{row.pk}/change/", {"name": f"{TEXT}2"}, follow=True))
        check(client.get(f"{path}{row.pk}/history/"), is_shown=False)
        if model not in (BannedDomain, ShortUrl):  # which the admin does not add
            new = {"name": f"{TEXT}3", "username": TEXT}
            check(client.post(f"{path}add/", new, follow=True))
        if model is not User:  # who is logged in
            check(client.post(f"{path}{row.pk}/delete/", {"post": "yes"}, follow=True))
    check(client.get("/admin/"))  # the last actions


def test_an_e_mail_is_plain_text(client: Client) -> None:
    User.objects.update(password="a hash", email="ann@example.com")
    Client().post("/account/password_reset/", {"email": "ann@example.com"})
    (message,) = mail.outbox
    assert f"a new password of {TEXT} at" in str(message.body)
    assert message.content_subtype == "plain"
    assert not getattr(message, "alternatives", [])


@pytest.mark.django_db(transaction=True)  # an export is a transaction
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "'"])
def test_no_cell_of_a_file_is_a_formula(client: Client, start: str) -> None:
    """A spreadsheet does not compute a cell with an apostrophe before it."""
    ShortUrl.objects.update(title=f"{start}1+1", tags=[f"{start}2+2"])
    for text in (
        client.get("/links/found.csv").text,
        run("export_links", "-")[0],
    ):
        (row,) = csv.DictReader(text.splitlines())
        assert (row["title"], row["tags"]) == (f"'{start}1+1", f"'{start}2+2")
