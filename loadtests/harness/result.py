"""The result of a run: the harm of a strategy, its confidence interval, and the exit code."""

from dataclasses import dataclass, field
from enum import IntEnum
from math import sqrt

NORMAL_95 = 1.959964  # the normal distribution's quantile for an interval of 95 %
BUSY = 0.9  # of one core; a Locust process can use no more than one


class ExitCode(IntEnum):
    """The exit code of a run."""

    AS_EXPECTED = 0
    UNEXPECTED = 1
    INCONCLUSIVE = 2


@dataclass
class LoadResult:
    """The result of a run.

    `verdict` is that of the strategies' table. `lost` is the number of requests that the strategy
    harmed, out of `of`: acknowledged redirects that were not counted, creates that failed or whose
    key is not the client's, links beyond the requested one or beyond a quota, hits without a visit
    (`missing`), or visits without a hit (`extra`). If the outcome of requests is unknown, `lost` is
    a lower bound. `reason` says why the run is inconclusive, or is empty.
    """

    script: str
    strategy: str
    operation: str
    verdict: str
    lost: int = 0
    of: int = 0
    lost_hits: int = 0
    doubled: int = 0
    stolen: int = 0
    missing: int = 0
    extra: int = 0
    failed: int = 0
    undone: int = 0
    edits: int = 0
    requests: int = 0
    acknowledged: int = 0
    unknown: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    share: float = 0.0
    low: float = 0.0
    high: float = 0.0
    seconds: float = 0.0
    per_second: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    cpu: float = 0.0
    proofs: list[list[str]] = field(default_factory=list)
    reason: str = ""

    @property
    def violated(self) -> bool:
        """Whether the invariant was violated: every acknowledged request took effect, once."""
        return self.lost + self.doubled + self.undone + self.failed > 0

    @property
    def wrong(self) -> bool:
        return self.verdict == "wrong"

    @property
    def raced(self) -> bool:
        """Whether requests were harmed in a way that only a race explains.

        A failed redirect proves no race, as it has other causes. Nor does a redirect counted twice,
        as a proxy may repeat a request. A repeated older edit may undo a newer one.
        """
        return self.lost > 0 or (self.undone > 0 and not self.doubled)

    @property
    def exit_code(self) -> ExitCode:
        if self.reason:
            return ExitCode.INCONCLUSIVE
        expected = self.raced if self.wrong else not self.violated
        return ExitCode.AS_EXPECTED if expected else ExitCode.UNEXPECTED

    @property
    def busy(self) -> bool:
        """Whether the load generator may have been the bottleneck."""
        return self.cpu > BUSY


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share. It also holds for a share of 0 or 1.

    https://doi.org/10.1080/01621459.1927.10502953
    """
    if not of:
        return 0.0, 0.0
    share, squared = count / of, NORMAL_95**2
    middle = (share + squared / (2 * of)) / (1 + squared / of)
    half = NORMAL_95 * sqrt(share * (1 - share) / of + squared / (4 * of**2)) / (1 + squared / of)
    return max(0.0, middle - half), min(1.0, middle + half)
