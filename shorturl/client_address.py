"""The address and the network of a request's client, for public creation and failed logins."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

# The prefix lengths of a network: addresses that usually have one user or neighbouring ones.
PREFIXES = {4: 24, 6: 64}


def client_address(environ: Mapping[str, Any]) -> str | None:
    """Return the client's address from the WSGI environ; None without one, as on a Unix socket.

    With BEHIND_PROXY this is the last address of X-Forwarded-For, the only address that a client
    cannot forge.
    """
    address = str(environ.get("REMOTE_ADDR", ""))
    if settings.BEHIND_PROXY:
        address = environ.get("HTTP_X_FORWARDED_FOR", address).rpartition(",")[2].strip()
    try:
        parsed = ipaddress.ip_address(without_port(address))
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    except ValueError:
        return None


def without_port(address: str) -> str:  # proxies also write "address:port" and "[address]:port"
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


def network_of(address: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    parsed = ipaddress.ip_address(address)
    return ipaddress.ip_network((parsed, PREFIXES[parsed.version]), strict=False)


def first_address(request: HttpRequest) -> str | None:
    """Return the first address of the client's network; django-axes counts failed logins by it."""
    address = client_address(request.META)
    return str(network_of(address).network_address) if address else None


def hashed_network(address: str | None) -> str:
    """Return a hash of an address's network, which could be guessed without the key.

    All requests without an address share one network.
    """
    network = str(network_of(address)) if address else "unknown"
    salt = "shorturl.limits.client_address"
    return salted_hmac(salt, network, algorithm="sha256").hexdigest()
