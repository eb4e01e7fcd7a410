"""Which timeouts a statement sets: when they end a wait depends on the clock."""

import functools
import re

from pginterleave.sql.reader import remove_comments

_TIMEOUTS = "lock|statement|transaction|idle_session|idle_in_transaction_session"
_TIMEOUT = re.compile(rf"\b(?:{_TIMEOUTS})_timeout\b")
# What reads a timeout or turns it off; what may set one; and a setting whose name is computed.
_NO_TIMEOUT = re.compile(
    rf"\b(?:show|reset|current_setting\s*\(\s*')\s*{_TIMEOUT.pattern}"
    rf"|\b{_TIMEOUT.pattern}\"?\s*(?:=|to)\s*(?:'?0(?:ms)?'?(?![\w.'])|default\b)"
    rf"|'{_TIMEOUT.pattern}'\s*,\s*'0(?:ms)?'"
)
_MAY_SET = re.compile(r"\b(?:set|set_config|pg_settings)\b")
_SETS_UNKNOWN = re.compile(r"\bset_config\s*\((?!\s*(?:'[^']*'|%s|%\(\w+\)s)\s*,)")


@functools.lru_cache(maxsize=1024)
def find_timeouts_set(text: str) -> tuple[str, ...]:
    """Return the timeouts that SQL with its parameters may set, unless it turns them off."""
    # The empty constants stand for the arguments of a set_config() that turns a timeout off.
    text = _NO_TIMEOUT.sub("'', ''", remove_comments(text).lower())
    names = _TIMEOUT.findall(text) if _MAY_SET.search(text) else []
    if _SETS_UNKNOWN.search(text):
        names.append("a setting")
    return tuple(dict.fromkeys(names))
