"""API tokens: how they are stored, and `manage.py token`."""

import hashlib
from functools import partial

import pytest
from django.core.management import CommandError

from shorturl.models import ApiToken
from shorturl.tests.callers import is_accepted, run

pytestmark = pytest.mark.django_db
PREFIX_LENGTH = ApiToken.PREFIX_LENGTH  # of a token, as stored and shown
token = partial(run, "token")


def create(name: str = "backup") -> str:
    return token("create", name).output.strip()


def test_create_prints_the_token_alone_and_stores_its_hash() -> None:
    out, err = token("create", "backup")
    text = out.removesuffix("\n")
    assert text.startswith("shorturl_")
    assert len(text) == len("shorturl_") + 43  # 256 bits in base 64
    assert "not shown again" in err
    assert text not in err
    (row,) = ApiToken.objects.values()
    assert row["prefix"] == text[:PREFIX_LENGTH]
    assert row["digest"] == hashlib.sha256(text.encode()).hexdigest()
    assert text not in str(row)
    assert is_accepted(text)
    for stored in (row["digest"], row["prefix"]):
        assert not is_accepted(stored)


@pytest.mark.parametrize("name", ["  ", "x" * 101, " taken ", "nul\0", "\udcff", "a\nb"])
def test_an_invalid_name_is_refused(name: str) -> None:
    create("taken")
    with pytest.raises(CommandError, match="is not a valid name"):
        create(name)
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("which", ["backup", "PREFIX", "PREFIX…"])  # as the list shows it
def test_a_token_is_revoked_once_by_its_name_or_its_prefix(which: str) -> None:
    text, other = create(), create("other")
    which = which.replace("PREFIX", text[:PREFIX_LENGTH])
    assert token("revoke", which) == ("", f"The token {which!r} is revoked.\n")
    assert (is_accepted(text), is_accepted(other)) == (False, True)
    revoked_at = ApiToken.objects.get(name="backup").revoked_at
    with pytest.raises(CommandError, match="is revoked already"):
        token("revoke", which)
    assert ApiToken.objects.get(name="backup").revoked_at == revoked_at


def test_an_unknown_or_ambiguous_token_is_not_revoked() -> None:
    text = create()
    prefix = text[:PREFIX_LENGTH]
    create(prefix)  # the name of one token is the prefix of another
    for which in ("", "back", "shorturl_", "nul\0", "\udcff", prefix):
        message = "Several tokens are" if which == prefix else "No token is"
        with pytest.raises(CommandError, match=f"{message} called"):
            token("revoke", which)
    assert is_accepted(text)


def test_the_list_shows_all_but_the_tokens() -> None:
    assert token("list") == ("", "There are no tokens: create one with `token create NAME`.\n")
    text, revoked = create(), create("b")
    token("revoke", "b")
    lines, err = token("list")
    backup, b = lines.splitlines()
    assert err == ""
    assert backup.startswith(f"backup  {text[:PREFIX_LENGTH]}…  created ")
    assert backup.endswith("  valid  create,read,edit,delete of all users")
    assert b.startswith(f"b       {revoked[:PREFIX_LENGTH]}…  created ")
    assert "  revoked " in b
    assert text not in lines
    assert revoked not in lines
