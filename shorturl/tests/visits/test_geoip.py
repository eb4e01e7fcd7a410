"""Countries by address, from a database that the test writes."""

from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from shorturl.models.hit_counts import ANY
from shorturl.visits import geoip
from shorturl.visits.classification import visit_of


def encoded(value: object) -> bytes:
    """Return a value as MaxMind's format has it (https://maxmind.github.io/MaxMind-DB/)."""
    if isinstance(value, dict):
        items = b"".join(encoded(key) + encoded(item) for key, item in value.items())
        return bytes([7 << 5 | len(value)]) + items
    if isinstance(value, str):
        return bytes([2 << 5 | len(value.encode())]) + value.encode()
    assert isinstance(value, bytes)  # as it is
    return value


def number(value: int) -> bytes:
    return bytes([5 << 5 | 2]) + value.to_bytes(2, "big")


def written(directory: Path, kind: str = "Test-Country", country: str = "DE") -> Path:
    """Write a tree of one node: addresses whose first bit is 0 are in the country."""
    nodes = 1
    tree = (nodes + 16).to_bytes(3, "big") + nodes.to_bytes(3, "big")
    about: dict[str, object] = {
        "node_count": bytes([6 << 5 | 4]) + nodes.to_bytes(4, "big"),
        "record_size": number(24),
        "ip_version": number(4),
        "binary_format_major_version": number(2),
        "binary_format_minor_version": number(0),
        "build_epoch": bytes([8, 2]) + (1_700_000_000).to_bytes(8, "big"),
        "database_type": kind,
        "languages": b"\x01\x04" + encoded("en"),  # an array
        "description": {"en": "of a test"},
    }
    data = encoded({"country": {"iso_code": country}})
    path = directory / "countries.mmdb"
    path.write_bytes(tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(about))
    return path


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("GeoLite2-Country", ""),
        ("GeoIP2-City-Europe", ""),
        ("DBIP-Country-Lite", ""),
        ("GeoLite2-ASN", "it is one of GeoLite2-ASN"),
    ],
)
def test_a_database_without_countries_is_refused(
    kind: str, problem: str, tmp_path: Path, settings: Settings
) -> None:
    settings.SHORTURL_GEOIP = str(written(tmp_path, kind))
    assert geoip.problem() == problem


def test_the_country_of_an_address(tmp_path: Path, settings: Settings) -> None:
    settings.SHORTURL_GEOIP = str(written(tmp_path))
    for address, country in {"1.2.3.4": "DE", "200.1.1.1": "", "::1": "", "x": "", "": ""}.items():
        assert visit_of({"REMOTE_ADDR": address}).country == country, address
    assert geoip.problem() == ""
    settings.PROXY_CLIENT_ADDRESS = True
    environ = {"REMOTE_ADDR": "200.1.1.1", "HTTP_X_FORWARDED_FOR": "200.1.1.1, 1.2.3.4"}
    assert visit_of(environ).country == "DE"


@pytest.mark.parametrize("country", [ANY, 2 * ANY, f"D{ANY}", "", "DEU", "ÄÖ"])
def test_an_invalid_country_is_unknown(country: str, tmp_path: Path, settings: Settings) -> None:
    settings.SHORTURL_GEOIP = str(written(tmp_path, country=country))
    assert visit_of({"REMOTE_ADDR": "1.2.3.4"}).country == ""


def test_a_file_that_cannot_be_read_is_a_check_error_and_no_500(
    tmp_path: Path, settings: Settings
) -> None:
    broken = tmp_path / "broken.mmdb"
    broken.write_text("nothing")
    for path in (broken, tmp_path / "missing.mmdb"):
        settings.SHORTURL_GEOIP = str(path)
        assert [each.id for each in run_checks()] == ["shorturl.E004"]
        assert visit_of({"REMOTE_ADDR": "1.2.3.4"}).country == ""
