"""A suite as projects have it: nothing in it is made for the discovery."""

import threading
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.files.storage import default_storage
from django.db import connection
from django.test import AsyncClient, Client, TestCase, TransactionTestCase

from shop.models import Redemption, Voucher


class VoucherTests(TestCase):
    """Tests in a transaction of their class."""

    @classmethod
    def setUpTestData(cls) -> None:
        cls.voucher = Voucher.objects.create(code="A")

    def send(self, view: str, **data: object) -> int:
        return self.client.post(f"/{view}/A/", data).status_code

    def test_redeem(self) -> None:
        assert self.send("redeem") == 302
        assert self.send("redeem") == 400
        assert Redemption.objects.count() == 1

    def test_use(self) -> None:
        assert self.send("use") == 200

    def test_grab(self) -> None:
        assert self.send("grab") == 200
        assert self.send("grab_or_wait") == 200

    def test_look(self) -> None:
        assert self.send("look") == 200

    def test_rename(self) -> None:
        assert self.send("rename", note="new") == 200
        self.voucher.refresh_from_db()
        assert self.voucher.note == "new"

    def test_reprice(self) -> None:
        assert self.send("reprice", value=7) == 200

    def test_fail(self) -> None:
        with pytest.raises(LookupError):
            self.send("fail")
        self.client.raise_request_exception = False
        assert self.send("fail") == 500
        assert self.send("stop") == 503

    def test_alter(self) -> None:
        assert self.send("alter") == 200
        assert self.send("reprice", value=8) == 200

    def test_add(self) -> None:
        cache.clear()
        name = default_storage.get_available_name("added.txt")
        assert self.send("add") == 200
        assert (cache.get("adds"), len(mail.outbox)) == (1, 1)
        default_storage.delete(name)

    def test_it_is_in_a_transaction(self) -> None:
        assert self.send("log") == 200
        assert connection.in_atomic_block


class RegisterTests(TransactionTestCase):
    def test_register(self) -> None:
        assert self.client.post("/register/B/").status_code == 201

    async def test_async(self) -> None:
        await Voucher.objects.acreate(code="C")
        assert (await AsyncClient().post("/add_async/C/")).status_code == 200


@pytest.fixture
def voucher(db: None) -> Voucher:
    return Voucher.objects.create(code="D")


def test_a_function(client: Client, voucher: Voucher, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(3):
        assert client.post("/redeem/D/").status_code == 302


def test_with_threads(transactional_db: None) -> None:
    def send() -> None:
        assert Client().post("/claim/E/").status_code == 201
        connection.close()

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    assert Voucher.objects.count() == 1
