"""Caches in memory: the explorer's threads share them, and the processes of a server do not."""

import functools
import gc
from typing import Any

from pginterleave.formatting import is_user_code

_Cached: Any = type(functools.lru_cache(lambda: None))


class Caches:
    """The project's functions with a functools.lru_cache; `used` has those that were called."""

    def __init__(self) -> None:
        found: list[Any] = [each for each in gc.get_objects() if type(each) is _Cached]
        self._seen = [[each, each.cache_info()] for each in found if _is_of_the_project(each)]
        self.used: dict[str, None] = {}

    def note(self) -> None:
        """Note which caches were used since the last time."""
        for pair in self._seen:
            cached, before = pair
            pair[1] = cached.cache_info()
            if pair[1][:2] not in (before[:2], (0, 0)):
                self.used[cached.__qualname__] = None


def _is_of_the_project(cached: Any) -> bool:
    code = getattr(getattr(cached, "__wrapped__", None), "__code__", None)
    name = code.co_filename if code else ""
    return bool(name) and is_user_code(name) and "-packages" not in name
