"""How far a search is."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

DELAY = 1.0  # seconds before a bar is drawn


@dataclass(frozen=True)
class Progress:
    """How far a search is: `share` is an estimate from 0 to 1, `seconds` the time it has taken."""

    share: float
    schedules: int
    violating: int
    seconds: float


@contextlib.contextmanager
def bar() -> Iterator[Callable[[Progress], object]]:
    """Draw a bar on stderr if that is a terminal and tqdm is installed."""
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        tqdm = None
    if tqdm is None or not sys.stderr.isatty():
        yield lambda progress: None
        return
    layout = "{l_bar}{bar}| {postfix}"
    times = {"delay": DELAY, "mininterval": DELAY / 10}
    with tqdm(total=100, leave=False, miniters=0, bar_format=layout, **times) as drawn:

        def show(progress: Progress) -> None:
            counts = f"{progress.schedules} schedules, {progress.violating} violating"
            drawn.set_postfix_str(counts, refresh=False)
            drawn.update(100 * progress.share - drawn.n)

        yield show
