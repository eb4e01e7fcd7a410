"""What is kept of a visit: the kind that it is of, told by the request's headers and address.

docs/visits.md says what that is. A kind has few values, each from a list that is here: no header,
whatever is in it, makes another one, or an error.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import ua_parser

from shorturl import geoip
from shorturl.client_address import address_of

OTHER = "other"  # a referrer that is not a host, or one too many; "" is none
OTHER_FAMILY = "Other"  # a family that is on no list

# Of a user-agent: the longest that browsers send have some 300 characters.
LONGEST_USER_AGENT = 512
# Of what is remembered, in each process: user-agents, and what they and a referrer's origin tell.
MOST_USER_AGENTS = 2_000
MOST_VISITS = 4_000

# By ua-parser's names of families (https://github.com/ua-parser/uap-core, regexes.yaml).
BROWSERS = {
    "Android": "Android Browser",
    "Chrome": "Chrome",
    "Chrome Mobile": "Chrome",
    "Chrome Mobile WebView": "Chrome",
    "Chrome Mobile iOS": "Chrome",
    "Chromium": "Chrome",
    "DuckDuckGo": "DuckDuckGo",
    "DuckDuckGo Mobile": "DuckDuckGo",
    "Edge": "Edge",
    "Edge Mobile": "Edge",
    "Facebook": "Facebook",
    "Firefox": "Firefox",
    "Firefox Mobile": "Firefox",
    "Firefox iOS": "Firefox",
    "IE": "Internet Explorer",
    "IE Mobile": "Internet Explorer",
    "Instagram": "Instagram",
    "LinkedIn": "LinkedIn",
    "Mobile Safari": "Safari",
    "Mobile Safari UI/WKWebView": "Safari",
    "Opera": "Opera",
    "Opera Mini": "Opera",
    "Opera Mobile": "Opera",
    "QQ Browser Mobile": "QQ Browser",
    "Safari": "Safari",
    "Samsung Internet": "Samsung Internet",
    "TikTok": "TikTok",
    "UC Browser": "UC Browser",
    "Vivaldi": "Vivaldi",
    "Yandex Browser": "Yandex Browser",
}
BOTS = {
    "AhrefsBot": "AhrefsBot",
    "Applebot": "Applebot",
    "Baiduspider": "Baiduspider",
    "bingbot": "bingbot",
    "ClaudeBot": "ClaudeBot",
    "curl": "curl",
    "Discordbot": "Discordbot",
    "DuckDuckBot": "DuckDuckBot",
    "FacebookBot": "FacebookBot",
    "Go-http-client": "Go-http-client",
    "Googlebot": "Googlebot",
    "GPTBot": "GPTBot",
    "HeadlessChrome": "HeadlessChrome",
    "LinkedInBot": "LinkedInBot",
    "Python Requests": "Python Requests",
    "SemrushBot": "SemrushBot",
    "Slackbot": "Slackbot",
    "Slackbot-LinkExpanding": "Slackbot",
    "TelegramBot": "TelegramBot",
    "Twitterbot": "Twitterbot",
    "Wget": "Wget",
    "WhatsApp": "WhatsApp",
    "YandexBot": "YandexBot",
}
SYSTEMS = {
    "Android": "Android",
    "Chrome OS": "ChromeOS",
    "Debian": "Linux",
    "Fedora": "Linux",
    "FreeBSD": "BSD",
    "HarmonyOS": "HarmonyOS",
    "KaiOS": "KaiOS",
    "Linux": "Linux",
    "Mac OS X": "macOS",
    "NetBSD": "BSD",
    "OpenBSD": "BSD",
    "Red Hat": "Linux",
    "Tizen": "Tizen",
    "Ubuntu": "Linux",
    "Windows": "Windows",
    "Windows Phone": "Windows Phone",
    "iOS": "iOS",
}
PHONE, TABLET, COMPUTER = "Phone", "Tablet", "Computer"
COMPUTERS = {"BSD", "ChromeOS", "Linux", "Windows", "macOS"}  # systems

# A host is at most 253 characters, and each of its names 63 (RFC 1035); browsers send it in ASCII.
NAME = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST = re.compile(rf"{NAME}(?:\.{NAME})*")
LONGEST_HOST = 253
ORIGIN = re.compile(r"(?:https?|android-app)://(?:[^/?#@]*@)?([^/?#:]+)", re.IGNORECASE)
LONGEST_ORIGIN = 512


class Visit(NamedTuple):
    """The kind of a visit."""

    referrer: str = ""  # a host in lower case; "" is none, OTHER one that is not a host
    browser: str = ""  # a name of BROWSERS or BOTS, or OTHER_FAMILY; "" without a user-agent
    system: str = ""  # a name of SYSTEMS, or OTHER_FAMILY; "" without a user-agent
    device: str = ""  # PHONE, TABLET, COMPUTER or OTHER_FAMILY; "" without a user-agent
    country: str = ""  # two letters of ISO 3166-1; "" when it is not known
    is_bot: bool = True


def visit_of(environ: Mapping[str, Any]) -> Visit:
    """Return the kind of a visit by its WSGI environ, which is Django's request.META too.

    Headers may have any bytes and any length.
    """
    referrer = referrer_of(environ.get("HTTP_REFERER", ""))
    user_agent = environ.get("HTTP_USER_AGENT", "")[:LONGEST_USER_AGENT]
    country = geoip.country_of(address_of(environ)) if geoip.is_on() else ""
    return told_by(referrer, user_agent, country)


@lru_cache(MOST_VISITS)
def told_by(referrer: str, user_agent: str, country: str) -> Visit:
    """Return the kind of a visit by the host of its referrer, its user-agent and its country."""
    browser, system, device, is_bot = families_of(user_agent)
    return Visit(referrer, browser, system, device, country, is_bot)


def referrer_of(header: str) -> str:
    """Return the host of a Referer header: "" without one, OTHER for what is no host."""
    if not header:
        return ""
    found = ORIGIN.match(header[:LONGEST_ORIGIN])
    host = found[1].lower().removesuffix(".") if found else ""
    return host if len(host) <= LONGEST_HOST and HOST.fullmatch(host) else OTHER


@lru_cache(MOST_USER_AGENTS)
def families_of(user_agent: str) -> tuple[str, str, str, bool]:
    """Return a user-agent's families of browser and system, its kind of device, and if it is a bot.

    A bot is what ua-parser calls a spider, and what does not begin as all browsers do.
    """
    if not user_agent:
        return "", "", "", True
    found = ua_parser.parse(user_agent)
    family = found.user_agent.family if found.user_agent else ""
    system = SYSTEMS.get(found.os.family if found.os else "", OTHER_FAMILY)
    device = found.device.family if found.device else ""
    is_bot = (
        family in BOTS or device == "Spider" or not user_agent.startswith(("Mozilla/", "Opera/"))
    )
    if is_bot:
        return BOTS.get(family, OTHER_FAMILY), system, OTHER_FAMILY, True
    return BROWSERS.get(family, OTHER_FAMILY), system, device_of(user_agent, system, device), False


def device_of(user_agent: str, system: str, device: str) -> str:
    """Return the kind of a browser's device.

    Phones say "Mobi", as MDN recommends to tell them
    (https://developer.mozilla.org/en-US/docs/Web/HTTP/Browser_detection_using_the_user_agent);
    tablets with Android do not, and an iPad says both.
    """
    if device == "iPad" or "Tablet" in user_agent:
        return TABLET
    if "Mobi" in user_agent:
        return PHONE
    if system == "Android":
        return TABLET
    return COMPUTER if system in COMPUTERS else OTHER_FAMILY
