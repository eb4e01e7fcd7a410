"""Memory of the project: the explorer's threads share it, and the processes of a server do not.

These are caches of `functools`, and variables and containers of modules, classes and objects.
"""

import functools
import gc
import os
import sys
from collections import deque
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from pginterleave.formatting import is_user_code

_Cached: Any = type(functools.lru_cache(lambda: None))  # the class of the caches of functools
CONTAINERS = (dict, list, set, deque, bytearray)
LOCAL_MEMORY = "django.core.cache.backends.locmem"  # a module of Django's that is looked at
MAX_ENTRIES = 1_000  # of a container with more entries, only their number is compared
CLEARED = (0, 0, 0)  # the hits, misses and size of a cache after cache_clear()
MAX_DEPTH = 1  # containers in containers are compared, and not what is in those
Variable = tuple[str, ...]  # a module, a name there, and the name of an attribute


class Seen(NamedTuple):
    """The identity of a variable's value, and what it holds if it is a container."""

    identity: int
    content: Any


NOT_SEEN = Seen(identity=0, content=None)  # for a variable that did not exist


class SharedMemory:
    """Finds which memory the processes have used: `used` has a description of each variable."""

    def __init__(self) -> None:
        caches = [cached for cached in gc.get_objects() if type(cached) is _Cached]
        self._caches = [cached for cached in caches if _is_of_the_project(_find_file(cached))]
        self.used: dict[str, None] = {}
        self._set_once: set[Variable] = set()  # variables that one schedule has set
        self._schedules = 0
        self._before: dict[Variable, Seen] | None = None

    def begin(self) -> None:
        """Note the caches and the variables before a schedule, after its setup."""
        self._schedules += 1
        self._samples = [self._sample_caches()]
        # Variables take long to read: only at the first, second, fourth schedule and so on.
        is_power_of_two = self._schedules & (self._schedules - 1) == 0
        self._before = self._read_variables() if is_power_of_two else None

    def note_caches(self) -> None:
        """Note the caches after a step: at the end, a cache that was cleared may look unused."""
        sample = self._sample_caches()
        if sample != self._samples[-1]:
            self._samples.append(sample)

    def _sample_caches(self) -> list[tuple[int, ...]]:
        """Return the hits, the misses and the size of each cache."""
        infos = (cached.cache_info() for cached in self._caches)
        return [(info.hits, info.misses, info.currsize) for info in infos]

    def note_use(self) -> None:
        """Note which caches and variables a schedule has used, after its end."""
        self.note_caches()
        for number, cached in enumerate(self._caches):
            before, *infos = [sample[number] for sample in self._samples]
            while infos and infos[-1] == CLEARED:  # nobody has used the cache since
                infos.pop()
            if any(info != before for info in infos):
                self.used[f"the cache of {cached.__qualname__}"] = None
        if self._before is None:
            return
        for variable, after in self._read_variables().items():
            seen_before = self._before.get(variable, NOT_SEEN)
            if after == seen_before:
                continue
            # A changed container is memory. Another variable may be set once, as by an import.
            if seen_before.content is not None or variable in self._set_once:
                name = f"the memory of {'.'.join(variable)}"
                is_cache = variable[0] == LOCAL_MEMORY
                self.used["Django's cache in local memory" if is_cache else name] = None
            self._set_once.add(variable)

    def _read_variables(self) -> dict[Variable, Seen]:
        variables: dict[Variable, Seen] = {("os", "environ"): Seen(0, dict(os.environ))}
        for variable, value in self._list_variables():
            variables[variable] = Seen(id(value), _read_content(value))
        return variables

    def _list_variables(self) -> Iterator[tuple[Variable, Any]]:
        """Yield the variables of modules, and the attributes of their classes and objects."""
        for module in [*sys.modules.values()]:
            module_name = getattr(module, "__name__", "")
            path = getattr(module, "__file__", None)
            if not _is_of_the_project(path) and module_name != LOCAL_MEMORY:
                continue
            for name, value in _list_attributes(module):
                if isinstance(value, ModuleType):
                    continue
                yield (module_name, name), value
                if isinstance(value, FunctionType):
                    for default in value.__defaults__ or ():
                        if isinstance(default, CONTAINERS):
                            yield (module_name, name, "__defaults__"), default
                    continue
                class_ = value if isinstance(value, type) else type(value)
                if class_.__module__ == module_name:
                    for attribute, content in _list_attributes(value):
                        yield (module_name, name, attribute), content


def _list_attributes(owner: object) -> list[tuple[str, Any]]:
    attributes = [*getattr(owner, "__dict__", {}).items()]  # another thread may add one
    return [(name, value) for name, value in attributes if not name.startswith("__")]


def _read_content(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return what a container holds, by identity; None for another value."""
    if not isinstance(value, CONTAINERS):
        return None
    if len(value) > MAX_ENTRIES:
        return len(value)
    entries = [*value, *value.values()] if isinstance(value, dict) else [*value]
    if not depth:
        return [*map(id, entries)]
    return [(id(entry), _read_content(entry, depth - 1)) for entry in entries]


def _is_of_the_project(filename: str | None) -> bool:
    return bool(filename) and is_user_code(str(filename)) and "-packages" not in str(filename)


def _find_file(cached: Any) -> str | None:
    code = getattr(getattr(cached, "__wrapped__", None), "__code__", None)
    return code.co_filename if code else None
