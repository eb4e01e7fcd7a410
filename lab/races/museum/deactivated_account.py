"""django.contrib.auth: a new password is saved with user.save(), which undoes a deactivation."""

from django.db import models, transaction

from lab.races.museum import exhibit
from pginterleave import Outcome
from shorturl.strategies.table import Strategy, table

OLD, NEW = "old", "new"  # the passwords


class Account(exhibit.ExhibitModel):
    """An account of a user, who may log in while it is active."""

    password = models.TextField()
    is_active = models.BooleanField()

    def __str__(self) -> str:
        return f"{'active' if self.is_active else 'off'}, password = {self.password}"


def as_found(pk: int, password: str) -> bool:
    """Read the account, set its password, and save.

    What goes wrong: save() writes both columns as they were read, so it undoes a deactivation. If
    its UPDATE finds no row, it sends an INSERT, and a removed account is back.
    """
    account = Account.objects.filter(pk=pk).first()
    if account is None:
        return False
    account.password = password
    account.save()
    return True


def in_a_transaction(pk: int, password: str) -> bool:
    """Do the same in one transaction, as ATOMIC_REQUESTS does.

    What goes wrong: the same. A transaction locks no row that it only reads.
    """
    with transaction.atomic():
        return as_found(pk, password)


def update_fields(pk: int, password: str) -> bool:
    """Read the account, set its password, and save this column alone.

    What goes wrong: a deactivation stays, and a removed account stays removed. But for a row that
    is gone save() raises DatabaseError, the class of an outage, and the user gets a 500.
    """
    account = Account.objects.filter(pk=pk).first()
    if account is None:
        return False
    account.password = password
    account.save(update_fields=["password"])
    return True


def mended(pk: int, password: str) -> bool:
    """Write the password in one UPDATE, if the account is there and active.

    Why nothing can go wrong: the UPDATE names one column, and its condition is checked on the row
    that it locks. It returns how many rows it has changed, and no row is an answer, not an error.
    """
    return Account.objects.filter(pk=pk, is_active=True).update(password=password) == 1


def act(strategy: Strategy, process: int) -> object:
    """Change the password as process 1, deactivate as process 2, and remove as process 3."""
    accounts = Account.objects.filter(pk=1)
    if process == 1:
        return strategy.function(1, NEW)
    return accounts.update(is_active=False) if process == 2 else accounts.delete()


def check_account(outcomes: list[Outcome]) -> str:
    """Check that the account is as the operator has left it: deactivated, or removed."""
    account = Account.objects.filter(pk=1).first()
    if len(outcomes) == 2:
        return "the account is active again" if account is None or account.is_active else ""
    if account is None:
        return ""
    return f"the removed account is back, and {'active' if account.is_active else 'off'}"


EXHIBIT = exhibit.make_exhibit(
    Account,
    first_rows=[Account(id=1, password=OLD, is_active=True)],
    name="deactivated_account",
    situation=(
        "Process 1 changes the password of an account. Process 2 deactivates the account, and "
        "process 3, if there is one, removes it."
    ),
    invariant="The account stays deactivated, or removed, and the user gets no error.",
    process_counts=(2, 3),
    strategies=table(
        exhibit.wrong_strategy(as_found, "sets the password, and save()"),
        exhibit.wrong_strategy(in_a_transaction, "the same in atomic()"),
        exhibit.wrong_strategy(update_fields, "update_fields: an error if the row is gone"),
        exhibit.right_strategy(mended, "one UPDATE of an active account"),
    ),
    process=act,
    check=check_account,
    source=(
        "Django 5.2: set_password_and_save() in django/contrib/auth/forms.py, user.save() (seen "
        "live in this service)"
    ),
    story=(
        "An account has been taken over, and the operator deactivates it. At that moment the "
        "intruder sends the form for a new password. The form has read the account at the "
        "beginning of the request. It then hashes the old and the new password, slowly on purpose, "
        "and saves the account: the new password, and is_active as it was read. The operator has "
        "seen that the account is off, and it is on again, with a password of the intruder. If "
        "the operator removes the account, save() finds no row to update, and inserts it again. "
        "Nobody gets an error. update_fields writes one column, and leaves a question that every "
        "UPDATE has: what if the row is gone?"
    ),
    lesson="Name the columns that you change, and decide what it means that no row was changed.",
)
