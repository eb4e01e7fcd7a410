"""The receivers of events; the triggers that write events exist only while there are any."""

import base64
import secrets
from contextlib import suppress

from django.core.exceptions import ValidationError
from django.db import connection, transaction

from shorturl.links.validators import has_valid_host, no_web_address, parse
from shorturl.models import ShortUrl, Subscription

MAX_RECEIVERS = 20  # receivers; `manage.py deliver` has a thread and a connection for each
LINKS = connection.ops.quote_name(ShortUrl._meta.db_table)
# It waits for changes in progress, and blocks further ones.
LOCK = f"LOCK TABLE {LINKS} IN SHARE ROW EXCLUSIVE MODE"
EDITED = "({0}.target_url, {0}.max_hits, {0}.expires_at)"
# When each type of event is written. Triggers run in the order of their names.
TRIGGERS = {
    "link.created": f"AFTER INSERT ON {LINKS} FOR EACH ROW WHEN (NEW.deleted_at IS NULL)",
    "link.deleted": f"AFTER UPDATE OF deleted_at ON {LINKS} FOR EACH ROW "
    "WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL)",
    "link.edited": f"AFTER UPDATE OF target_url, max_hits, expires_at ON {LINKS} FOR EACH ROW "
    f"WHEN ({EDITED.format('OLD')} IS DISTINCT FROM {EDITED.format('NEW')})",
    "link.expired": f"AFTER UPDATE OF expiry_told ON {LINKS} FOR EACH ROW "
    "WHEN (NEW.expiry_told = NEW.expires_at)",
    "link.used_up": f"AFTER UPDATE OF hits, max_hits ON {LINKS} FOR EACH ROW "
    "WHEN (NEW.hits = NEW.max_hits AND (OLD.hits = OLD.max_hits) IS NOT TRUE)",
}


def subscribe(url: str) -> Subscription:
    """Add a receiver of every change that is committed from now on.

    It waits for changes in progress, so none is committed later without its event.
    """
    url = clean_receiver(url)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK)
        if Subscription.objects.count() >= MAX_RECEIVERS:
            raise ValidationError(f"There are {MAX_RECEIVERS} receivers: remove one first.")
        subscription, created = Subscription.objects.get_or_create(
            url=url, defaults={"secret": secret}
        )
        if not created:
            raise ValidationError(f"{url!r} is a receiver already.")
        for name, when in TRIGGERS.items():
            action = f"EXECUTE FUNCTION shorturl_tell('{name}')"
            cursor.execute(f'CREATE OR REPLACE TRIGGER "{name}" {when} {action}')
    return subscription


def clean_receiver(url: str) -> str:
    """Return the address of a receiver as browsers read it, which may be a private one.

    Raises ValidationError, whose message has no password.
    """
    address = parse(url)
    if address.user:
        message = f"The address at {address.host} has a user name or password: leave them out."
        raise ValidationError(message)
    if not has_valid_host(address):
        raise no_web_address(url)
    return address.href


def unsubscribe(url: str) -> bool:
    """Remove a receiver, its events and, with the last receiver, the triggers; False if unknown."""
    addresses = [url]  # as it is stored, even if clean_receiver() would refuse it
    with suppress(ValidationError):
        addresses.append(clean_receiver(url))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK)
        removed, _ = Subscription.objects.filter(url__in=addresses).delete()
        if not Subscription.objects.exists():
            for name in TRIGGERS:
                cursor.execute(f'DROP TRIGGER IF EXISTS "{name}" ON {LINKS}')
    return removed > 0
