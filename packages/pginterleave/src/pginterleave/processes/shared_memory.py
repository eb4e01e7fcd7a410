"""Memory of the project: the explorer's threads share it, and the processes of a server do not.

These are caches of `functools`, variables and containers of modules, classes and objects, and what
the functions of the processes hold, such as a list to which a test's fake appends.
"""

import functools
import operator
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import Any, ClassVar, NamedTuple

from pginterleave.formatting import is_user_code
from pginterleave.processes.parts import find_class_file, list_parts, read_attributes, write_path

CONTAINERS = (dict, list, set, deque, bytearray)
LOCAL_MEMORY = "django.core.cache.backends.locmem"  # a module of Django's that is looked at
MAX_ENTRIES = 1_000  # of a container with more entries, only their number is compared
CLEARED = (0, 0, 0)  # the hits, misses and size of a cache after cache_clear()
MAX_HELD_DEPTH = 8  # of objects, partials and methods that a function holds, each in the other
MAX_DEPTH = 1  # containers in containers are compared, and not what is in those
Variable = tuple[str, ...]  # a module, a name there, and the name of an attribute


class Seen(NamedTuple):
    """The identity of a variable's value, and what it holds if it is a container."""

    identity: int
    content: Any


NOT_SEEN = Seen(identity=0, content=None)  # for a variable that did not exist


class Namespace(NamedTuple):
    """What a module, a class or an object has in its `__dict__`, as it was read last.

    `seen` has the variables that are no containers, `containers` the others, and `owners` the
    classes and objects of a module. The values are kept: no other one gets the identity of one.
    """

    names: list[str]
    values: list[Any]
    seen: dict[Variable, Seen]
    containers: list[tuple[Variable, Any]]
    owners: list[tuple[Variable, Any]]

    def has(self, names: list[str], values: list[Any]) -> bool:
        return names == self.names and all(map(operator.is_, values, self.values))


class SharedMemory:
    """Finds which memory the processes have used: `used` has a description of each variable."""

    _namespaces: ClassVar[dict[Variable, Namespace]] = {}  # as any exploration has read them last

    def __init__(self, functions: Sequence[Callable[[], object]]) -> None:
        # What an OwnObjects calls.
        self._functions = [getattr(function, "function", function) for function in functions]
        self._caches: list[Any] = []
        self.used: dict[str, None] = {}
        self._set_once: set[Variable] = set()  # variables that one schedule has set
        self._schedules = 0
        self._before: dict[Variable, Seen] | None = None

    def look(self, caches: Sequence[Any]) -> None:
        """Keep those of the project among the caches of functools."""
        self._caches = [cached for cached in caches if _is_of_the_project(_find_file(cached))]

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
        for index, cached in enumerate(self._caches):
            before, *later = [sample[index] for sample in self._samples]
            while later and later[-1] == CLEARED:  # clearing a cache does not count as its use
                later.pop()
            if any(info != before for info in later):
                self.used[f"the cache of {cached.__qualname__}"] = None
        if self._before is not None:
            self._note_changes(self._before)

    def _note_changes(self, before: dict[Variable, Seen]) -> None:
        """Note each container that has changed, and each other variable at its second change.

        The first change of a variable may be that of an import, or of a value that is made once.
        """
        for variable, after in self._read_variables().items():
            seen_before = before.get(variable, NOT_SEEN)
            if after is seen_before or after == seen_before:
                continue
            was_container = seen_before.content is not None
            if was_container or variable in self._set_once:
                name = f"the memory of {write_path(variable)}"
                is_cache = variable[:1] == (LOCAL_MEMORY,)
                self.used["Django's cache in local memory" if is_cache else name] = None
            self._set_once.add(variable)

    def _read_variables(self) -> dict[Variable, Seen]:
        """Read the variables of modules, and what the functions hold besides.

        Those of a module are also the attributes of its classes and objects.
        """
        variables: dict[Variable, Seen] = {("os", "environ"): Seen(0, dict(os.environ))}
        for module in [*sys.modules.values()]:
            name = getattr(module, "__name__", "")
            path = getattr(module, "__file__", None)
            if _is_of_the_project(path) or name == LOCAL_MEMORY:
                self._read_namespace((name,), module, variables)
        # A container that is a variable, too, is named once, as that.
        containers = {each.identity for each in variables.values() if each.content is not None}
        for function in self._functions:
            for held, value in _list_held(function, (), containers):
                variables[held] = Seen(id(value), _read_content(value))
        return variables

    def _read_namespace(
        self, path: Variable, owner: object, variables: dict[Variable, Seen]
    ) -> None:
        """Add the variables of a module, a class or an object to `variables`.

        Its Namespace is made anew only if its names or values have changed, which is rare.
        """
        contents = read_attributes(owner)
        names, values = [*contents], [*contents.values()]
        namespace = self._namespaces.get(path)
        if namespace is None or not namespace.has(names, values):
            namespace = self._namespaces[path] = _make_namespace(path, names, values)
        variables |= namespace.seen
        for variable, value in namespace.containers:
            variables[variable] = Seen(id(value), _read_content(value))
        for inner_path, inner in namespace.owners:
            self._read_namespace(inner_path, inner, variables)


def _make_namespace(path: Variable, names: list[str], values: list[Any]) -> Namespace:
    namespace = Namespace(names, values, {}, [], [])
    for name, value in zip(names, values, strict=True):
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        variable = (*path, name)
        if isinstance(value, CONTAINERS):
            namespace.containers.append((variable, value))
        elif isinstance(value, BuiltinMethodType):  # such as the append() of a list
            namespace.containers.append((variable, value.__self__))
        else:
            namespace.seen[variable] = Seen(id(value), None)
        if len(path) > 1:  # of a class or an object: no further
            continue
        if type(value) is FunctionType:  # isinstance() would believe a Mock
            defaults = value.__defaults__ or ()
            found = [default for default in defaults if isinstance(default, CONTAINERS)]
            namespace.containers.extend(((*variable, "__defaults__"), each) for each in found)
        elif (value if isinstance(value, type) else type(value)).__module__ == path[0]:
            namespace.owners.append((variable, value))
    return namespace


def _list_held(value: Any, names: Variable, seen: set[int]) -> Iterator[tuple[Variable, Any]]:
    """Yield the containers that a function holds, and the attributes of objects, each once."""
    if id(value) in seen or len(names) > MAX_HELD_DEPTH:
        return
    seen.add(id(value))
    parts = list_parts(value)
    if isinstance(value, CONTAINERS):
        yield names, value
    elif isinstance(value, BuiltinMethodType):  # such as the append() of a list
        yield from _list_held(value.__self__, names, seen)
    elif type(value) is FunctionType:
        yield from (((*names, name), part) for name, part in parts.items() if isinstance(part, int))
    elif not parts and _is_object_of_the_project(value):
        parts = read_attributes(value)
        yield from (((*names, name), part) for name, part in parts.items())
    for name, part in parts.items():
        yield from _list_held(part, (*names, name), seen)


def _is_object_of_the_project(value: Any) -> bool:
    is_namespace = isinstance(value, (type, ModuleType))
    return not is_namespace and _is_of_the_project(find_class_file(value))


def _read_content(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return what a container holds, by identity; None for another value."""
    if not isinstance(value, CONTAINERS):
        return None
    if len(value) > MAX_ENTRIES:
        return len(value)
    entries = [*value, *value.values()] if isinstance(value, dict) else [*value]
    inner = [each for each in entries if isinstance(each, CONTAINERS)] if depth else []
    return [*map(id, entries)], [_read_content(each, depth - 1) for each in inner]


@functools.cache
def _is_of_the_project(filename: str | None) -> bool:
    return bool(filename) and is_user_code(str(filename)) and "-packages" not in str(filename)


def _find_file(cached: Any) -> str | None:
    code = getattr(getattr(cached, "__wrapped__", None), "__code__", None)
    return code.co_filename if code else None
