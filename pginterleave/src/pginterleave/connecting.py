"""Notices the connections that are opened past an adapter: a hook in the drivers.

Each driver has one function that all its connections come through, by whichever name it is called.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CONNECT = (("psycopg2", "_connect"), ("psycopg.generators", "connect"))


@contextmanager
def watched(note: Callable[[], object]) -> Iterator[None]:
    """Call `note`, in the thread that connects, before each new connection."""
    found = [(sys.modules[name], function) for name, function in CONNECT if name in sys.modules]
    originals = [(module, name, getattr(module, name)) for module, name in found]
    for module, name, connect in originals:
        setattr(module, name, _noting(connect, note))
    try:
        yield
    finally:
        for module, name, connect in originals:
            setattr(module, name, connect)


def _noting(connect: Callable[..., Any], note: Callable[[], object]) -> Callable[..., Any]:
    def noting(*args: Any, **kwargs: Any) -> Any:
        note()
        return connect(*args, **kwargs)

    return noting
