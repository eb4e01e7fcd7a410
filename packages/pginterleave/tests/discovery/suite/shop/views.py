"""Views with a race of each kind, and views without one."""

import logging
import secrets
from collections.abc import Callable

from django.core import mail
from django.core.cache import cache
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import OperationalError, connection, transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404

from shop.models import Redemption, Voucher


def redeem(request: HttpRequest, code: str) -> HttpResponse:
    """Check, then act: two rows of redemptions."""
    voucher = get_object_or_404(Voucher, code=code)
    if Redemption.objects.filter(voucher=voucher).exists():
        return HttpResponse("It was redeemed.", status=400)
    Redemption.objects.create(voucher=voucher)
    return HttpResponseRedirect("/thanks/")


def use(request: HttpRequest, code: str) -> HttpResponse:
    """Check, then act: the row is as after one use, and both are told that it is theirs."""
    voucher = get_object_or_404(Voucher, code=code)
    if voucher.used:
        return HttpResponse("It was used.", status=400)
    Voucher.objects.filter(code=code).update(used=True)
    request.session["used"] = code  # a row for each, which does not make it a race in the rows
    return HttpResponse("It is yours.")


def register(request: HttpRequest, code: str) -> HttpResponse:
    """Look, then insert: the constraint makes it an IntegrityError."""
    if Voucher.objects.filter(code=code).exists():
        return HttpResponse("It is taken.", status=400)
    Voucher.objects.create(code=code)
    return HttpResponse(status=201)


def claim(request: HttpRequest, code: str) -> HttpResponse:
    Voucher.objects.create(code=code)
    return HttpResponse(status=201)


def grab(request: HttpRequest, code: str) -> HttpResponse:
    """Refuse whoever finds the row locked."""
    return _lock(code, HttpResponse("Locked.", status=423))


def grab_or_wait(request: HttpRequest, code: str) -> HttpResponse:
    """Ask whoever finds the row locked to come again."""
    return _lock(code, HttpResponse("Busy.", status=503, headers={"Retry-After": "1"}))


def _lock(code: str, refusal: HttpResponse) -> HttpResponse:
    try:
        with transaction.atomic():
            Voucher.objects.select_for_update(nowait=True).get(code=code)
            Voucher.objects.filter(code=code).update(value=F("value") + 1)
    except OperationalError:
        return refusal
    return HttpResponse("It is yours.")


def add(request: HttpRequest, code: str) -> HttpResponse:
    """Count in one statement, and do what is put back: a mail, a cache, a file, a token."""
    Voucher.objects.filter(code=code).update(value=F("value") + 1, note=secrets.token_hex(4))
    cache.set("adds", cache.get("adds", 0) + 1)
    if cache.get("adds") > 1:
        return HttpResponse("One addition is enough.", status=429)
    mail.send_mail("Added", code, None, ["shop@shop.example"])
    default_storage.save("added.txt", ContentFile(code))
    return HttpResponse("Added.")


def rename(request: HttpRequest, code: str) -> HttpResponse:
    """Save the whole row, and undo what another request changes meanwhile."""
    voucher = get_object_or_404(Voucher, code=code)
    voucher.note = request.POST["note"]
    voucher.save()
    return HttpResponse("Renamed.")


def reprice(request: HttpRequest, code: str) -> HttpResponse:
    """Change one column."""
    Voucher.objects.filter(code=code).update(value=int(request.POST["value"]))
    return HttpResponse("Repriced.")


def log(request: HttpRequest, code: str) -> HttpResponse:
    """Write a row by a handler of the log, which has a lock."""
    logging.getLogger("shop").warning("Somebody looks at %s", code)
    return HttpResponse("Logged.")


def look(request: HttpRequest, code: str) -> HttpResponse:
    """Read only."""
    return HttpResponse(str(get_object_or_404(Voucher, code=code).value))


def fail(request: HttpRequest, code: str) -> HttpResponse:
    """Write, and fail also alone."""
    Voucher.objects.filter(code=code).update(value=F("value") + 1)
    raise LookupError("not today")


def stop(request: HttpRequest, code: str) -> HttpResponse:
    """Write, and refuse for ever: 503 without Retry-After is no refusal on purpose."""
    Voucher.objects.filter(code=code).update(value=F("value") + 1)
    return HttpResponse("Closed.", status=503)


async def add_async(request: HttpRequest, code: str) -> HttpResponse:
    """Read, and write what was read."""
    voucher = await Voucher.objects.aget(code=code)
    voucher.value += 1
    await voucher.asave(update_fields=["value"])
    return HttpResponse("Added.")


def alter(request: HttpRequest, code: str) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE shop_voucher ADD COLUMN more int")
    return HttpResponse("Altered.")


VIEWS: list[Callable[..., object]] = [
    claim,
    *(redeem, use, register, grab, grab_or_wait, add, rename, reprice, log, look, fail),
    *(add_async, alter, stop),
]
