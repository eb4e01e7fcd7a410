"""/admin/ of accounts and groups: what was changed is written, to a row that is still there."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django.asserts import assertContains

from shorturl.models import BannedDomain, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, create_link, form_values, user
from shorturl.tests.statements import before_statement

pytestmark = pytest.mark.django_db
ACCOUNTS, GROUPS = "/admin/auth/user/", "/admin/auth/group/"


def test_a_form_keeps_what_another_has_changed_since_it_was_shown(admin_client: Client) -> None:
    ann, editors = user(staff=True), Group.objects.create(name="editors")
    path = f"{ACCOUNTS}{ann.pk}/change/"
    fields = form_values(admin_client.get(path))
    User.objects.filter(pk=ann.pk).update(is_active=False, is_staff=False)
    ann.groups.add(editors)
    sent = {**fields, "email": "new@example.com", "is_superuser": "on"}
    assert admin_client.post(path, sent).status_code == 302
    ann = User.objects.get(pk=ann.pk)
    assert (ann.email, ann.is_superuser) == ("new@example.com", True)
    assert (ann.is_active, ann.is_staff) == (False, False)
    assert list(ann.groups.all()) == [editors]


def test_a_program_that_sends_no_shown_values_changes_what_it_sends(admin_client: Client) -> None:
    ann = user(staff=True)
    sent = {"username": "renamed", "is_staff": "on"}  # so that it is no longer active
    assert admin_client.post(f"{ACCOUNTS}{ann.pk}/change/", sent).status_code == 302
    assert User.objects.filter(username="renamed", is_active=False, is_staff=True).exists()


@pytest.mark.parametrize("model", [User, Group])
def test_a_row_that_is_deleted_while_it_is_edited_is_not_inserted_again(
    admin_client: Client, model: type[User] | type[Group]
) -> None:
    row = user() if model is User else Group.objects.create(name="editors")
    path = f"{ACCOUNTS if model is User else GROUPS}{row.pk}/change/"
    delete = model.objects.filter(pk=row.pk).delete
    with before_statement("FOR NO KEY UPDATE", model._meta.db_table, call=delete):
        page = admin_client.post(path, {"username": "renamed", "name": "renamed"})
    assertContains(page, "was deleted meanwhile, and is not changed.", status_code=400)


def test_a_name_that_is_taken_while_an_account_is_added_is_refused(admin_client: Client) -> None:
    password = "a new one for today"
    sent = {"username": "ann", "usable_password": "true"}
    sent |= {"password1": password, "password2": password}
    other = user()

    def take_name() -> None:
        User.objects.filter(pk=other.pk).update(username="ann")

    with before_statement("INSERT INTO", '"auth_user"', "RETURNING", call=take_name):
        page = admin_client.post(f"{ACCOUNTS}add/", sent)
    assertContains(page, "Nothing is changed: the name was just taken", status_code=400)


def test_the_admin_refuses_a_name_that_differs_from_another_in_case_alone(
    admin_client: Client,
) -> None:
    User.objects.create_user("Bob")
    ann = User.objects.create_user("ann")
    pages = (f"/admin/auth/user/{ann.pk}/change/", "/admin/auth/user/add/")
    for page in pages:
        answer = admin_client.post(page, {"username": "bOB", "usable_password": "false"})
        assertContains(answer, "A user with that username already exists.")
    admin_client.post(pages[0], {"username": "Ann"})  # its own
    assert {*User.objects.values_list("username", flat=True)} == {"admin", "Bob", "Ann"}


PASSWORDS = {"password1": "a new one for today", "password2": "a new one for today"}
SELECTED = {"action": "delete_selected", "_selected_action": "{pk}"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("shorturl/shorturl/{pk}/change/", {"target_url": OTHER}),
        ("shorturl/shorturl/{pk}/delete/", {}),
        ("shorturl/shorturl/", SELECTED),
        ("shorturl/banneddomain/a.example/delete/", {}),
        ("auth/group/{pk}/change/", {"name": "renamed"}),
        ("auth/group/", SELECTED),
        ("auth/user/{pk}/password/", PASSWORDS),
    ],
)
def test_what_staff_do_is_refused_if_their_account_is_removed_meanwhile(
    admin_client: Client, path: str, fields: dict[str, str]
) -> None:
    """The admin's log names the account: COMMIT, or in autocommit the INSERT, refuses it."""
    BannedDomain.objects.create(domain="a.example")
    ann = user()
    rows = {"shorturl": create_link(), "group": Group.objects.create(name="a"), "user": ann}
    pk = next((str(row.pk) for name, row in rows.items() if f"/{name}/" in path), "")
    sent = {"post": "yes", **{name: value.format(pk=pk) for name, value in fields.items()}}
    remove = User.objects.filter(is_superuser=True).delete
    with before_statement('INSERT INTO "django_admin_log"', call=remove):
        page = admin_client.post(f"/admin/{path.format(pk=pk)}", sent)
    assert page.status_code == 400
    assert (ShortUrl.objects.get().target_url, Group.objects.get().name) == (TARGET, "a")
    assert ShortUrl.objects.get().deleted_at is None
    assert BannedDomain.objects.exists()
    assert User.objects.get(pk=ann.pk).password == ann.password


@pytest.mark.django_db(transaction=True)  # without the test's own transaction, to see the admin's
def test_selected_accounts_are_deleted_with_their_links_kept(admin_client: Client) -> None:
    ann, bob = user(), user()
    create_link(owner=ann)
    selected = {**SELECTED, "_selected_action": [ann.pk, bob.pk], "post": "yes"}
    assert admin_client.post(ACCOUNTS, selected).status_code == 302
    assert User.objects.get().is_superuser
    assert ShortUrl.objects.get().owner is None


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("shorturl/shorturl/", {"action": "hand_over", "_selected_action": "1"}),  # no owner
        ("shorturl/shorturl/", {"action": "delete_selected", "_selected_action": "a"}),
        ("shorturl/apitoken/", {"action": "revoke", "_selected_action": "\0"}),
        ("shorturl/banneddomain/", {"action": "delete_selected", "_selected_action": "\0"}),
        ("auth/user/", {"action": "delete_selected", "_selected_action": "a"}),
        (f"shorturl/shorturl/?created_at__year={10**20}", {}),
    ],
)
def test_a_selection_or_a_filter_that_no_page_offers_is_refused(
    admin_client: Client, path: str, sent: dict[str, str]
) -> None:
    create_link()
    page = admin_client.post(f"/admin/{path}", sent) if sent else admin_client.get(f"/admin/{path}")
    assert page.status_code in (302, 400)
    assert ShortUrl.objects.get().deleted_at is None
