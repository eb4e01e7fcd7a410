"""The owner of a short URL is its creator; only the owner and the staff see and change it."""

import re
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

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.limits import owners
from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import JSON, OTHER, TARGET, bearer, change, create, run, user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("private")]

# All paths of a short URL but the redirect.
PATHS = ["/{}/stats", "/{}/qr.svg", "/api/links/{}", "/links/{}", "/links/{}/delete"]


def owner_of(key: str) -> User | None:
    return ShortUrl.objects.get(key=key).owner


def test_a_link_belongs_to_the_user_who_made_it(client: Client, settings: Settings) -> None:
    owner = user()
    for key, headers in [("a", bearer("of a user", user=owner)), ("b", bearer("of nobody"))]:
        create(client, {"target_url": TARGET, "key": key}, headers=headers)
    settings.SHORTURL_PUBLIC_CREATE = True
    client.post("/", {"target_url": TARGET, "key": "c"})
    create(client, {"target_url": TARGET, "key": "d"})
    client.force_login(owner)
    client.post("/", {"target_url": TARGET, "key": "e"})
    create(client, {"target_url": TARGET, "key": "f"})
    assert {link.key: link.owner for link in ShortUrl.objects.select_related("owner")} == {
        **dict.fromkeys("aef", owner),
        **dict.fromkeys("bcd"),
    }


def answer(client: Client, method: str, path: str, key: str, **more: Any) -> tuple[object, ...]:
    """Return status, Location, body and statements, without key, time and name of a savepoint."""
    with CaptureQueriesContext(connection) as sent:
        response = client.generic(method, path.format(key), **more)
    body = response.content.decode().replace(key, "KEY")
    location = response.headers.get("Location", "").replace(key, "KEY")
    without = re.compile(r"'[\d-]+T[\d:.+]+'|_x\d+")
    statements = [without.sub("", q["sql"].replace(key, "KEY")) for q in sent]
    return response.status_code, location, body, statements


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("who", ["visitor", "stranger", "token"])
def test_a_stranger_is_told_nothing(client: Client, path: str, who: str) -> None:
    """Another's link and a missing one get the same answer, by the same statements."""
    operations.create(TARGET, key="theirs", owner_id=user().pk)
    stranger = user()
    more: dict[str, Any] = {"headers": bearer(user=stranger)} if who == "token" else {}
    if who == "stranger":
        client.force_login(stranger)
    for method in ("GET", "PATCH", "DELETE") if path.startswith("/api/") else ("GET", "POST"):
        if method == "PATCH":
            more |= {"data": f'{{"target_url": "{OTHER}"}}', "content_type": JSON}
        theirs = answer(client, method, path, "theirs", **more)
        assert theirs == answer(client, method, path, "absent", **more)
        assert theirs[0] in (302, 401, 403, 404, 405)
    assert ShortUrl.objects.get().target_url == TARGET
    assert client.get("/theirs").status_code == 302


def test_a_token_lists_and_changes_only_its_users_links(client: Client) -> None:
    owner, boss = user(), user("view_shorturl", staff=True)
    for key, owner_id in [("mine", owner.pk), ("his", boss.pk), ("nobodys", None)]:
        operations.create(TARGET, key=key, owner_id=owner_id)

    def listed(headers: dict[str, str] | None = None) -> list[str]:
        items = client.get("/api/links", headers=headers).json()["items"]
        return [item["key"] for item in items]

    of_owner, of_staff, of_nobody = bearer("1", user=owner), bearer("2", user=boss), bearer("3")
    assert listed(of_owner) == ["mine"]
    assert listed(of_staff) == ["his"]
    assert listed(of_nobody) == ["nobodys", "his", "mine"]
    for after in ("his", "absent"):
        assert client.get(f"/api/links?after={after}", headers=of_owner).status_code == 422
    assert change(client, "mine", {"target_url": OTHER}, headers=of_owner).status_code == 200
    client.force_login(boss)
    assert listed() == ["nobodys", "his", "mine"]
    client.force_login(owner)
    assert listed() == ["mine"]


def test_links_survive_their_account_and_tokens_do_not(
    client: Client, admin_client: Client
) -> None:
    owner = user()
    headers = bearer(user=owner)
    operations.create(TARGET, key="known", owner_id=owner.pk)
    assert client.get("/api/links/known", headers=headers).status_code == 200
    User.objects.update(is_active=False)
    assert client.get("/api/links/known", headers=headers).status_code == 401
    User.objects.update(is_active=True)
    removed = admin_client.post(f"/admin/auth/user/{owner.pk}/delete/", {"post": "yes"})
    assert removed.status_code == 302
    assert not User.objects.filter(pk=owner.pk).exists()
    assert not ApiToken.objects.exists()
    assert client.get("/api/links/known", headers=headers).status_code == 401
    assert client.get("/known").status_code == 302
    assert owner_of("known") is None


@pytest.mark.parametrize("public", [True, False])
def test_the_page_of_a_link_says_for_whom_it_is_visible(
    client: Client, settings: Settings, public: bool
) -> None:
    settings.SHORTURL_PUBLIC_STATS = public
    owner = user()
    operations.create(TARGET, key="known", owner_id=owner.pk)
    operations.create(TARGET, key="nobodys")
    for key in ("known", "nobodys"):
        response = client.get(f"/{key}/stats")
        assert response.status_code == (200 if public else 404)
        assert f"/links/{key}" not in response.text
    staff = user("view_shorturl", staff=True)
    for reader, readers in (
        (owner, "Only you and the staff"),
        (staff, "Only its owner and the staff"),
    ):
        client.force_login(reader)
        readers = "Anyone with the short URL" if public else readers
        assertContains(client.get("/known/stats"), f"{readers} can see this page.")
        assertContains(client.get("/known/stats"), "/links/known/delete", int(reader == owner))


def test_a_stranger_does_not_see_the_target_of_a_link_with_a_limit(
    client: Client, settings: Settings
) -> None:
    """A caller who gets the target of a one-time link has used it up."""
    settings.SHORTURL_PUBLIC_STATS = True
    owner, target_url = user(), "https://example.com/secret"
    operations.create(target_url, key="once", max_hits=1, owner_id=owner.pk)
    operations.create(target_url, key="often")
    for reader in (None, user(), user("view_shorturl", staff=True), owner):
        if reader:
            client.force_login(reader)
        sees = reader is not None and (reader.is_staff or reader == owner)
        assert (target_url in client.get("/once/stats").text) is sees
        assertContains(client.get("/once/stats"), "example.com")
        shown = target_url if sees else None
        assert client.get("/api/links/once").json()["target_url"] == shown
        assert client.get("/api/links/often").json()["target_url"] == target_url
    assert ShortUrl.objects.get(key="once").hits == 0


def test_a_visitor_who_creates_a_link_is_told_its_address(
    client: Client, settings: Settings
) -> None:
    """The page with its hits would be a 404 for the visitor."""
    settings.SHORTURL_PUBLIC_CREATE = True
    response = client.post("/", {"target_url": TARGET, "key": "spring"}, follow=True)
    assert response.redirect_chain == [("/", 303)]
    assertContains(response, 'href="http://testserver/spring"')


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ["change", "delete"])
def test_a_former_owner_changes_nothing(interleave: Interleave, act: str) -> None:
    """The statement itself asks for the owner.

    Process 1 changes or deletes its link. Process 2 gives the link to another owner, who changes
    it. If process 1 asked for the owner first, it would overwrite that.
    """
    old, new = user(), user()
    operations.create(TARGET, key="known", owner_id=old.pk)
    headers = bearer(user=old)

    def act_as_the_old_owner() -> int:
        if act == "change":
            answer = change(Client(), "known", {"target_url": OTHER}, headers=headers)
        else:
            answer = Client().delete("/api/links/known", headers=headers)
        return int(answer.status_code)

    def give_away_and_change() -> int:
        live = ShortUrl.objects.filter(key="known", deleted_at=None)
        return live.update(owner=new, target_url="https://example.net/newest")

    interleave(act_as_the_old_owner, give_away_and_change)


def test_a_leavers_links_are_handed_over() -> None:
    leaver, heir = user(), user()
    operations.create(TARGET, key="known", owner_id=leaver.pk)
    with pytest.raises(CommandError, match="name another account"):
        run("remove_account", leaver.username, "--links-to", leaver.username)
    for name in ("nobody", "a\0b"):
        with pytest.raises(CommandError, match="There is no user '"):
            run("remove_account", name)
    message = f"{leaver.username} is removed; 1 links belong to {heir.username} now.\n"
    assert run("remove_account", leaver.username, "--links-to", heir.username) == (message, "")
    assert owner_of("known") == heir


def test_redirects_do_not_wait_for_the_removal_of_an_account(
    client: Client, monkeypatch: pytest.MonkeyPatch, elsewhere: CursorWrapper
) -> None:
    """At most one batch of links is locked at any time; other accounts' links are left alone."""
    monkeypatch.setattr(owners, "BATCH", 2)
    owner, other = user(), user()
    for number in range(5):
        operations.create(TARGET, key=f"known{number}", owner_id=owner.pk)
    operations.create(TARGET, key="other", owner_id=other.pk)
    locked = []

    def count_locked_links(execute: Any, *statement: Any) -> Any:
        result = execute(*statement)
        elsewhere.execute("SELECT FROM shorturl_shorturl FOR NO KEY UPDATE SKIP LOCKED")
        locked.append(6 - elsewhere.rowcount)
        return result

    with connection.execute_wrapper(count_locked_links):
        output, _ = run("remove_account", owner.username)
    assert output == f"{owner.username} is removed; 5 links have no owner now.\n"
    assert max(locked) == 2
    assert not User.objects.filter(pk=owner.pk).exists()
    assert owner_of("known0") is None
    assert owner_of("other") == other
    assert client.get("/known4").status_code == 302


def test_selected_links_are_handed_over_in_the_admin(client: Client) -> None:
    old, new = user(), user()
    for key in ("a", "b", "c"):
        operations.create(TARGET, key=key, owner_id=old.pk)
    ShortUrl.objects.get(key="c").delete()
    chosen = ShortUrl.objects.exclude(key="a").values_list("pk", flat=True)
    action = {"action": "hand_over", "owner": new.username, "_selected_action": list(chosen)}
    path = f"/admin/shorturl/shorturl/?q={old.username}"
    client.force_login(user("view_shorturl", staff=True))
    client.post(path, action)
    assert owner_of("b") == old
    client.force_login(user("view_shorturl", "change_shorturl", staff=True))
    assertContains(client.post(path, {**action, "owner": "x"}, follow=True), "There is no user")
    answer = client.post(path, action, follow=True)
    assertContains(answer, f"Handed over to {new.username}: 1.")
    assert [owner_of(key) for key in "abc"] == [old, new, old]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_link_given_away_concurrently_keeps_its_new_owner(
    interleave: Interleave, settings: Settings, is_cluster: bool
) -> None:
    """Process 1 reads the leaver's links. Process 2 gives one away. Process 1 leaves it alone.

    On a cluster no row is locked, and the UPDATE checks the owner of each row again.
    """
    settings.DATABASE_CITUS = is_cluster
    old, new = user(), user()
    operations.create(TARGET, key="known", owner_id=old.pk)
    leavers = ShortUrl.objects.filter(owner_id=old.pk)

    def give_away() -> None:
        ShortUrl.objects.filter(key="known").update(owner=new)

    def the_new_owner_has_it(outcomes: list[Outcome]) -> None:
        assert owner_of("known") == new

    interleave(lambda: owners.hand_over(leavers, None), give_away, invariant=the_new_owner_has_it)
