"""Django: two requests count with `incr()` of the cache in the database."""

from django.core.cache import caches

from .finding import Finding


def count() -> None:
    caches["database"].incr("visits")


FINDING = Finding(
    package="Django",
    version="6.1.3",
    operation="`DatabaseCache.incr()` of one key, twice",
    breaks=True,
    says="It reads, adds and writes: one of the two is lost. Django's documentation says that "
    "a backend without an atomic increment uses these two steps.",
    setup=lambda: caches["database"].set("visits", 0),
    processes=[count, count],
    invariant=lambda _: "" if (n := caches["database"].get("visits")) == 2 else f"visits = {n}",
)
