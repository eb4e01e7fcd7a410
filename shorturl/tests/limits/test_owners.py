"""The owner of a short URL is its creator; only the owner and the staff see and change it."""

import re
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from pytest_django.asserts import assertContains

from pginterleave.pytest_plugin import Interleave
from shorturl.limits import owners
from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import (
    OTHER,
    TARGET,
    bulk,
    change,
    create,
    create_link,
    run,
    user,
    with_token,
)
from shorturl.tests.statements import before_statement

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("private")]

# All paths of a short URL but the redirect.
PATHS = ["/KEY/stats", "/KEY/qr.svg", "/KEY/qr.png", "/api/links/KEY", "/links/KEY"]
PATHS += ["/links/KEY/delete", "/api/links/KEY/visits"]


def owner_of(key: str) -> User | None:
    return ShortUrl.objects.get(key=key).owner


def test_a_link_belongs_to_the_user_who_made_it(client: Client, settings: Settings) -> None:
    settings.SHORTURL_PUBLIC_CREATE = True
    owner = user()
    create(with_token(user=owner), {"target_url": TARGET, "key": "by-token"})
    create(with_token(), {"target_url": TARGET, "key": "token-of-nobody"})
    client.post("/", {"target_url": TARGET, "key": "visitor-in-form"})
    create(client, {"target_url": TARGET, "key": "visitor-in-api"})
    client.force_login(owner)
    client.post("/", {"target_url": TARGET, "key": "by-form"})
    create(client, {"target_url": TARGET, "key": "by-api"})
    bulk(client, {"target_url": TARGET, "key": "by-bulk"})
    owned = ShortUrl.objects.filter(owner=owner).values_list("key", flat=True)
    assert set(owned) == {"by-token", "by-form", "by-api", "by-bulk"}
    assert ShortUrl.objects.filter(owner=None).count() == 3


def answer_to(client: Client, method: str, path: str, key: str) -> str:
    """Return status, Location, body and SQL of a request, without the key, times and savepoints."""
    with CaptureQueriesContext(connection) as sent:
        if method == "PATCH":
            response = change(client, key, {"target_url": OTHER})
        else:
            response = client.generic(method, path.replace("KEY", key))
    assert response.status_code in (302, 401, 403, 404, 405)
    answer = f"{response.status_code} {response.headers.get('Location')} {response.text}"
    statements = " ".join(query["sql"] for query in sent)
    return re.sub(rf"{key}|'[\d-]+T[\d:.+]+'|_x\d+", "", f"{answer} {statements}")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("who", ["visitor", "stranger", "token"])
def test_a_foreign_link_and_a_missing_one_get_the_same_answer_by_the_same_statements(
    path: str, who: str
) -> None:
    create_link("theirs", owner=user())
    stranger = with_token(user=user()) if who == "token" else Client()
    if who == "stranger":
        stranger.force_login(user())
    for method in ("GET", "PATCH", "DELETE") if path.startswith("/api/") else ("GET", "POST"):
        theirs = answer_to(stranger, method, path, "theirs")
        assert theirs == answer_to(stranger, method, path, "absent")
    assert ShortUrl.objects.get().target_url == TARGET
    assert stranger.get("/theirs").status_code == 302


def listed_keys(client: Client) -> list[str]:
    return [link["key"] for link in client.get("/api/links").json()["items"]]


def test_the_api_lists_own_links_and_all_to_staff_and_to_a_token_of_nobody(client: Client) -> None:
    owner, staff = user(), user("view_shorturl", staff=True)
    for key, link_owner in {"mine": owner, "of-staff": staff, "nobodys": None}.items():
        create_link(key, owner=link_owner)
    token = with_token(user=owner)
    assert listed_keys(token) == ["mine"]
    assert listed_keys(with_token(user=staff)) == ["of-staff"]  # unlike a login of the staff
    assert listed_keys(with_token()) == ["nobodys", "of-staff", "mine"]
    for foreign_key in ("of-staff", "absent"):
        assert token.get(f"/api/links?after={foreign_key}").status_code == 422
    assert change(token, "mine", {"target_url": OTHER}).status_code == 200
    client.force_login(staff)
    assert listed_keys(client) == ["nobodys", "of-staff", "mine"]
    client.force_login(owner)
    assert listed_keys(client) == ["mine"]


def test_a_token_works_while_its_account_is_active() -> None:
    owner = user()
    create_link(owner=owner)
    token = with_token(user=owner)
    assert token.get("/api/links/known").status_code == 200
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert token.get("/api/links/known").status_code == 401


def test_links_survive_their_account_and_tokens_do_not(
    client: Client, admin_client: Client
) -> None:
    owner = user()
    create_link(owner=owner)
    token = with_token(user=owner)
    removed = admin_client.post(f"/admin/auth/user/{owner.pk}/delete/", {"post": "yes"})
    assert removed.status_code == 302
    assert not User.objects.filter(pk=owner.pk).exists()
    assert not ApiToken.objects.exists()
    assert token.get("/api/links/known").status_code == 401
    assert client.get("/known").status_code == 302
    assert owner_of("known") is None


@pytest.mark.parametrize("public", [True, False])
def test_the_page_of_a_link_says_for_whom_it_is_visible(
    client: Client, settings: Settings, public: bool
) -> None:
    settings.SHORTURL_PUBLIC_STATS = public
    owner = user()
    create_link(owner=owner)
    create_link("nobodys")
    for key in ("known", "nobodys"):
        response = client.get(f"/{key}/stats")
        assert response.status_code == (200 if public else 404)
        assert f"/links/{key}" not in response.text
    staff = user("view_shorturl", staff=True)
    for reader, owner_is_called in {owner: "you", staff: "its owner"}.items():
        client.force_login(reader)
        private = f"Only {owner_is_called} and the staff"
        readers = "Anyone with the short URL" if public else private
        page = client.get("/known/stats")
        assertContains(page, f"{readers} can see this page.")
        assert ("/links/known/delete" in page.text) is (reader == owner)


def test_a_stranger_does_not_see_the_target_of_a_link_with_a_limit(
    client: Client, settings: Settings
) -> None:
    """A caller who gets the target of a one-time link has used it up."""
    settings.SHORTURL_PUBLIC_STATS = True
    owner, target_url = user(), "https://example.com/secret"
    create_link("once", target_url=target_url, max_hits=1, owner=owner)
    create_link("often", target_url=target_url)
    staff = user("view_shorturl", staff=True)
    for reader in (None, user(), staff, owner):
        if reader:
            client.force_login(reader)
        may_see = reader in (staff, owner)
        page = client.get("/once/stats")
        assertContains(page, "example.com")
        assert (target_url in page.text) is may_see
        shown = target_url if may_see else None
        assert client.get("/api/links/once").json()["target_url"] == shown
        assert client.get("/api/links/often").json()["target_url"] == target_url
    assert ShortUrl.objects.get(key="once").hits == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("action", ["change", "delete"])
def test_a_former_owner_changes_nothing(interleave: Interleave, action: str) -> None:
    """The statement itself checks the owner.

    Process 1 changes or deletes its link. Process 2 gives the link to another owner, who changes
    it. If process 1 checked the owner by a statement before, it would overwrite that.
    """
    old, new = user(), user()
    create_link(owner=old)
    client = with_token(user=old)

    def act_as_the_old_owner() -> int:
        if action == "change":
            return int(change(client, "known", {"target_url": OTHER}).status_code)
        return client.delete("/api/links/known").status_code

    def give_away_and_change() -> int:
        live = ShortUrl.objects.filter(key="known", deleted_at=None)
        return live.update(owner=new, target_url="https://example.net/newest")

    interleave(act_as_the_old_owner, give_away_and_change)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["user0", "--links-to", "user0"], "name another account"),
        (["nobody"], "There is no user '"),
        (["a\0b"], "There is no user '"),
    ],
)
def test_the_removal_of_an_account_is_refused(arguments: list[str], message: str) -> None:
    assert user().username == "user0"
    with pytest.raises(CommandError, match=message):
        run("remove_account", *arguments)


def test_a_leavers_links_are_handed_over() -> None:
    leaver, heir = user(), user()
    create_link(owner=leaver)
    message = f"{leaver.username} is removed. Links that belong to {heir.username} now: 1.\n"
    assert run("remove_account", leaver.username, "--links-to", heir.username) == (message, "")
    assert owner_of("known") == heir


def test_all_links_are_handed_over_whatever_their_order_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owners, "BATCH", 2)
    heir = user()
    for number in range(5):
        create_link(f"known{number}")
    ShortUrl.objects.filter(key="known0").update(title="edited")  # its new row is the last one
    assert owners.hand_over(ShortUrl.objects.all(), heir.pk) == 5
    assert {link.owner for link in ShortUrl.objects.select_related("owner")} == {heir}


def test_redirects_do_not_wait_for_the_removal_of_an_account(
    client: Client, monkeypatch: pytest.MonkeyPatch, other_session: CursorWrapper
) -> None:
    """At most one batch of links is locked at any time; other accounts' links are left alone."""
    monkeypatch.setattr(owners, "BATCH", 2)
    owner, other = user(), user()
    for number in range(5):
        create_link(f"known{number}", owner=owner)
    create_link("other", owner=other)
    locked_links = []

    def count_locked_links(execute: Any, *statement: Any) -> Any:
        """Execute a statement of the removal, and count the links that are locked then."""
        result = execute(*statement)
        other_session.execute("SELECT FROM shorturl_shorturl FOR NO KEY UPDATE SKIP LOCKED")
        locked_links.append(6 - other_session.rowcount)  # six links less those that are not locked
        return result

    with connection.execute_wrapper(count_locked_links):
        output, _ = run("remove_account", owner.username)
    assert output == f"{owner.username} is removed. Links that have no owner now: 5.\n"
    assert max(locked_links) == 2
    assert not User.objects.filter(pk=owner.pk).exists()
    assert (owner_of("known0"), owner_of("other")) == (None, other)
    assert client.get("/known4").status_code == 302


def test_selected_links_are_handed_over_in_the_admin(client: Client) -> None:
    old, new = user(), user()
    links = [create_link(key, owner=old) for key in "abc"]
    links[2].delete()
    selected = [link.pk for link in links[1:]]  # b, and c, which is deleted
    action = {"action": "hand_over", "owner": new.username, "_selected_action": selected}
    path = f"/admin/shorturl/shorturl/?q={old.username}"
    client.force_login(user("view_shorturl", staff=True))
    client.post(path, action)
    assert owner_of("b") == old  # whoever may only view changes nothing
    client.force_login(user("view_shorturl", "change_shorturl", staff=True))
    answer = client.post(path, {**action, "owner": "x"}, follow=True)
    assertContains(answer, 'class="error">There is no user')
    answer = client.post(path, action, follow=True)
    assertContains(answer, f'class="success">Handed over to {new.username}: 1.')
    assert [owner_of(key) for key in "abc"] == [old, new, old]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_link_given_away_concurrently_keeps_its_new_owner(
    interleave: Interleave, settings: Settings, is_cluster: bool
) -> None:
    """Process 1 reads the links of `old`. Process 2 gives one to `new`, and process 1 leaves it.

    On a cluster no row is locked, and the UPDATE checks the owner of each row again.
    """
    settings.DATABASE_CITUS = is_cluster
    old, new = user(), user()
    create_link(owner=old)
    links_of_old = ShortUrl.objects.filter(owner_id=old.pk)

    def give_away() -> None:
        ShortUrl.objects.filter(key="known").update(owner=new)

    interleave(lambda: owners.hand_over(links_of_old, None), give_away)


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "a-key"}], ids=["once", "repeatable"])
def test_an_account_that_is_removed_before_the_insert_creates_nothing(
    client: Client, headers: dict[str, str], other_session: CursorWrapper
) -> None:
    remove_accounts = partial(other_session.execute, "DELETE FROM auth_user")
    with before_statement("INSERT INTO", "shorturl_shorturl", call=remove_accounts):
        client.force_login(user())
        response = create(client, headers=headers)
        assert response.status_code == 401
        assert "The account was removed meanwhile" in response.json()["detail"]
        client.force_login(user())
        page = client.post("/", {"target_url": TARGET})
        assertContains(page, "account was removed", status_code=403)
    assert not ShortUrl.objects.exists()
