"""What the README's example is about: vouchers that may be redeemed once."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from django.db import connection, models


class Voucher(models.Model):
    """One row of the table that `voucher_table` makes."""

    code = models.CharField(max_length=20, primary_key=True)
    redeemed = models.IntegerField(default=0)

    objects: ClassVar[models.Manager["Voucher"]] = models.Manager()

    class Meta:
        app_label = "vouchers"

    def __str__(self) -> str:
        return self.code


@pytest.fixture
def voucher_table(transactional_db: None) -> Iterator[None]:
    """Make the table, as a migration would, and drop it afterwards."""
    with connection.schema_editor() as editor:
        editor.create_model(Voucher)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Voucher)
