"""An account is saved by its changed columns: the one place that writes a row of auth_user again.

Django's forms, its admin, `changepassword` and the new hash of a log-in all call User.save(), which
writes every column as it was read. That would undo a deactivation, and insert a removed account.
"""

from collections.abc import Collection
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.core.management.base import CommandError
from django.db.models import UniqueConstraint
from django.db.models.functions import Lower

from project.accounts import NAME_INDEX

COLUMNS = frozenset(field.attname for field in User._meta.concrete_fields)


class AccountChanged(BadRequest, CommandError):
    """Since the account was read, it was deactivated or removed, or its password changed.

    A page answers it with a 400, and a command with one line.
    """

    def __init__(self) -> None:
        super().__init__(
            "The account was deactivated or removed, or its password was changed, a moment ago. "
            "Nothing was written."
        )


def save(
    account: User, *args: Any, update_fields: Collection[str] | None = None, **options: Any
) -> None:
    """Insert a new account, or write the columns that were changed since the account was read.

    A password is written only over the one that was read, while the account is as active as it was
    then. So a link to choose a password works once. Sends no signal but for a new account. Raises
    AccountChanged.
    """
    if account._state.adding:
        super(User, account).save(*args, update_fields=update_fields, **options)
        note_columns(account)
        return
    values: dict[str, Any] = vars(account)
    as_read: dict[str, Any] = values["as_read"]
    names = COLUMNS.intersection(values if update_fields is None else update_fields)
    changes = {name: values[name] for name in names if values[name] != as_read.get(name, ...)}
    rows = User.objects.filter(pk=account.pk)
    if "password" in changes:
        rows = rows.filter(password=as_read["password"], is_active=as_read["is_active"])
    if changes and not rows.update(**changes):
        raise AccountChanged
    note_columns(account, changes)


def from_db(cls: type[User], *args: Any) -> User:
    account = super(User, cls).from_db(*args)
    note_columns(account)
    return account


def refresh_from_db(account: User, using: Any = None, fields: Any = None, **options: Any) -> None:
    super(User, account).refresh_from_db(using, fields, **options)
    note_columns(account, COLUMNS if fields is None else fields)


def note_columns(account: User, names: Collection[str] = COLUMNS) -> None:
    """Remember the values that the account has in the database, in its attribute `as_read`."""
    values = vars(account)
    read = {name: values[name] for name in COLUMNS.intersection(names) if name in values}
    values.setdefault("as_read", {}).update(read)


def replace_save() -> None:
    """Replace User.save(), note what is read, and refuse names that differ in case alone.

    Forms and full_clean() ask for a name by the constraint, whose index project/migrations makes.

    A class of our own would need another AUTH_USER_MODEL, which Django cannot change once there are
    accounts.
    """
    for name, function in {
        "save": save,
        "from_db": classmethod(from_db),
        "refresh_from_db": refresh_from_db,
    }.items():
        setattr(User, name, function)
    message = User._meta.get_field("username").error_messages["unique"]
    constraint = UniqueConstraint(
        Lower("username"), name=NAME_INDEX, violation_error_message=message
    )
    User._meta.constraints = [constraint]
