"""Where a request comes from: for wrong passwords, and for the quotas of public creation."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

# Of an address: what one connection to the internet usually has at the least.
PREFIXES = {4: 24, 6: 64}


def client_address(request: HttpRequest) -> str | None:
    """Return the address of the client, or None where it is not an address.

    That is the proxy's, unless PROXY_CLIENT_ADDRESS says that the proxy tells the client's: as the
    last one of X-Forwarded-For, the only one that the client cannot have written itself.
    """
    return address_of(request.META)


def address_of(environ: Mapping[str, Any]) -> str | None:
    """Return the same by the WSGI environ."""
    address = str(environ.get("REMOTE_ADDR", ""))
    if settings.PROXY_CLIENT_ADDRESS:
        address = environ.get("HTTP_X_FORWARDED_FOR", address).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return None


def hashed_network(address: str | None) -> str:
    """Return what stands for the network of an address: the digits of a keyed hash.

    Without SECRET_KEY nobody can tell which network it is, or try them all. An IPv4 address that
    is written as an IPv6 one is an IPv4 address; what is not an address is a network of its own.
    """
    network = "unknown"
    if address:
        found = ipaddress.ip_address(address.partition("%")[0])
        found = getattr(found, "ipv4_mapped", None) or found
        network = str(ipaddress.ip_network((found, PREFIXES[found.version]), strict=False))
    return salted_hmac("shorturl.client_address", network, algorithm="sha256").hexdigest()
