"""The request that tells a receiver of an event, signed by https://www.standardwebhooks.com."""

import base64
import hashlib
import hmac
import json
import socket
import time
from http.client import HTTPConnection, HTTPSConnection
from threading import Timer
from urllib.parse import urlsplit

from django.utils.encoding import iri_to_uri

from shorturl.links.validators import ascii_host
from shorturl.models import LinkEvent, Subscription

TIMEOUT = 5  # seconds: of each wait for the receiver
LONGEST = 20  # seconds: of the whole request; a claim is longer


class NotDelivered(Exception):
    """The receiver has answered with another status than 2xx."""


def tell(receiver: Subscription, event: LinkEvent) -> None:
    """Send the event; raise NotDelivered, OSError or HTTPException if it may not have arrived."""
    content = {"type": event.type, "timestamp": event.at.isoformat(), "data": event.data}
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", **signed(receiver.secret, event.pk, body)}
    url = urlsplit(iri_to_uri(receiver.url))
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(ascii_host(url.hostname or ""), url.port, timeout=TIMEOUT)
    try:
        connection.connect()
        # A receiver that sends a byte now and then would never run into the timeout.
        timer = Timer(LONGEST, connection.sock.shutdown, [socket.SHUT_RDWR])
        timer.start()
        try:
            path = url._replace(scheme="", netloc="", fragment="").geturl()
            connection.request("POST", path or "/", body, headers)
            status = connection.getresponse().status
        finally:
            timer.cancel()
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise NotDelivered(f"it answered {status}")


def signed(secret: str, number: int, body: bytes) -> dict[str, str]:
    """Return the headers with the event's id, the time in seconds, and the signature of all."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    name, now = f"event_{number}", str(int(time.time()))
    digest = hmac.digest(key, f"{name}.{now}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": name,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
