"""What is kept of a visit, by the headers and the address of its request: see docs/visits.md.

Except for referrer and country, each dimension has values from a list of this file.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import ua_parser
from crawleruseragents import is_crawler  # type: ignore[import-untyped]
from django.conf import settings

from shorturl.client_address import client_address
from shorturl.models import OTHER, Visit
from shorturl.visits import geoip

OTHER_FAMILY = "Other"  # a family that is on no list

MAX_USER_AGENT = 512  # characters; browsers send at most some 300
MAX_CACHED_USER_AGENTS = 2_000  # by each process

# By ua-parser's names of families (https://github.com/ua-parser/uap-core, regexes.yaml).
# fmt: off
BROWSERS = {
    **{name: name for name in (
        "Chrome", "DuckDuckGo", "Edge", "Facebook", "Firefox", "Instagram", "LinkedIn", "Opera",
        "Safari", "Samsung Internet", "TikTok", "UC Browser", "Vivaldi", "Yandex Browser",
    )},
    "Android": "Android Browser", "QQ Browser Mobile": "QQ Browser",
    "Chrome Mobile": "Chrome", "Chrome Mobile WebView": "Chrome", "Chrome Mobile iOS": "Chrome",
    "Chromium": "Chrome", "DuckDuckGo Mobile": "DuckDuckGo", "Edge Mobile": "Edge",
    "Firefox Mobile": "Firefox", "Firefox iOS": "Firefox", "IE": "Internet Explorer",
    "IE Mobile": "Internet Explorer", "Mobile Safari": "Safari",
    "Mobile Safari UI/WKWebView": "Safari", "Opera Mini": "Opera", "Opera Mobile": "Opera",
}
BOTS = {
    **{name: name for name in (
        "AhrefsBot", "Applebot", "Baiduspider", "bingbot", "ClaudeBot", "curl", "Discordbot",
        "DuckDuckBot", "FacebookBot", "Go-http-client", "Googlebot", "GPTBot", "HeadlessChrome",
        "LinkedInBot", "Python Requests", "SemrushBot", "Slackbot", "TelegramBot", "Twitterbot",
        "Wget", "WhatsApp", "YandexBot",
    )},
    "Slackbot-LinkExpanding": "Slackbot",
}
# How the User-Agent of a browser begins; a few old ones do without "Mozilla/".
BROWSER_PREFIXES = (
    "Mozilla/", "Opera/", "UCWEB/", "Nokia", "BlackBerry", "SonyEricsson", "SAMSUNG-", "LG-",
    "Lynx/", "Links (", "ELinks/", "w3m/", "Dillo/", "NetSurf/",
)
# Bots that neither ua-parser nor crawler-user-agents knows: Office, and Bluesky's previews.
UNLISTED_BOTS = ("ms-office", "Cardyb")
SYSTEMS = {
    **{name: name for name in (
        "Android", "HarmonyOS", "KaiOS", "Linux", "Tizen", "Windows", "Windows Phone", "iOS",
    )},
    "Chrome OS": "ChromeOS", "Mac OS X": "macOS",
    "Debian": "Linux", "Fedora": "Linux", "Red Hat": "Linux", "Ubuntu": "Linux",
    "FreeBSD": "BSD", "NetBSD": "BSD", "OpenBSD": "BSD",
}
# fmt: on
PHONE, TABLET, COMPUTER = "Phone", "Tablet", "Computer"
COMPUTERS = {"BSD", "ChromeOS", "Linux", "Windows", "macOS"}  # systems

# A host has at most 253 characters, and each of its labels 63 (RFC 1035). Browsers send ASCII.
NAME = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST = re.compile(rf"{NAME}(?:\.{NAME})*")
MAX_HOST = 253
ORIGIN = re.compile(r"(?:https?|android-app)://(?:[^/?#@]*@)?([^/?#:]+)", re.IGNORECASE)
MAX_ORIGIN = 512


def classify_visit(environ: Mapping[str, Any]) -> Visit:
    """Return the visit of a request by its WSGI environ, which is also Django's request.META."""
    referrer = referrer_host(environ.get("HTTP_REFERER", ""))
    user_agent = environ.get("HTTP_USER_AGENT", "")[:MAX_USER_AGENT]
    browser, system, device, is_bot = classify_user_agent(user_agent)
    country = geoip.country_of(client_address(environ)) if settings.SHORTURL_GEOIP else ""
    return Visit(referrer, browser, system, device, country, is_bot)


def referrer_host(header: str) -> str:
    """Return the host of a Referer header; "" without a header, OTHER if it has no valid host."""
    if not header:
        return ""
    origin = ORIGIN.match(header[:MAX_ORIGIN])
    host = origin[1].lower().removesuffix(".") if origin else ""
    return host if len(host) <= MAX_HOST and HOST.fullmatch(host) else OTHER


@lru_cache(MAX_CACHED_USER_AGENTS)
def classify_user_agent(user_agent: str) -> tuple[str, str, str, bool]:
    """Return the browser, the system and the device of a user-agent, and whether it is a bot.

    A bot is on a list, is a spider for ua-parser, or does not begin as all browsers do.
    """
    if not user_agent:
        return "", "", "", True
    parsed = ua_parser.parse(user_agent)
    family = parsed.user_agent.family if parsed.user_agent else ""
    system = SYSTEMS.get(parsed.os.family if parsed.os else "", OTHER_FAMILY)
    device = parsed.device.family if parsed.device else ""
    is_bot = (
        family in BOTS
        or device == "Spider"
        or not user_agent.startswith(BROWSER_PREFIXES)
        or any(name in user_agent for name in UNLISTED_BOTS)
        or is_crawler(user_agent)  # the last one, as it takes a third of a millisecond
    )
    if is_bot:
        return BOTS.get(family, OTHER_FAMILY), system, OTHER_FAMILY, True
    device = classify_device(user_agent, system, device)
    return BROWSERS.get(family, OTHER_FAMILY), system, device, False


def classify_device(user_agent: str, system: str, device: str) -> str:
    """Return PHONE, TABLET, COMPUTER or OTHER_FAMILY for the user-agent of a browser.

    The user-agent of a phone contains "Mobi"
    (https://developer.mozilla.org/en-US/docs/Web/HTTP/Browser_detection_using_the_user_agent), and
    that of an old phone "MIDP". An iPad sends "Mobi", too, and an Android tablet neither of them.
    """
    if device == "iPad" or "Tablet" in user_agent:
        return TABLET
    if "Mobi" in user_agent or "MIDP" in user_agent:
        return PHONE
    if system == "Android":
        return TABLET
    return COMPUTER if system in COMPUTERS else OTHER_FAMILY
