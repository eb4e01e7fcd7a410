"""API tokens: how they are stored, and `manage.py token create`."""

import hashlib
from functools import partial

import pytest
from django.core.management import CommandError

from shorturl.models import ApiToken
from shorturl.tests.callers import is_accepted, run, user

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
    assert ApiToken.objects.get().scopes == [*ApiToken.SCOPES]
    for stored in (row["digest"], row["prefix"]):
        assert not is_accepted(stored)


def test_a_token_has_the_user_and_the_scopes_that_are_named() -> None:
    ann = user()
    token("create", "backup", "--user", ann.username, "--scopes", "read", "edit")
    stored = ApiToken.objects.get()
    assert (stored.user, stored.scopes) == (ann, ["read", "edit"])
    with pytest.raises(CommandError, match="There is no user 'nobody'"):
        token("create", "other", "--user", "nobody")
    with pytest.raises(CommandError, match="invalid choice: 'write'"):
        token("create", "other", "--scopes", "read", "write")


@pytest.mark.parametrize("name", ["  ", "x" * 101, " taken ", "nul\0", "\udcff", "a\nb"])
def test_an_invalid_name_is_refused(name: str) -> None:
    create("taken")
    with pytest.raises(CommandError, match="is not a valid name"):
        create(name)
    assert ApiToken.objects.count() == 1
