"""How many machines: a plain arithmetic model, from figures that were measured.

The processor times are those of docs/benchmarks.md, which a test compares; the bytes are those of
`manage.py sizing --measure`. What is assumed, and not measured, has a name here.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

# Measured: microseconds of processor time, of the workers and of PostgreSQL's sessions.
REDIRECT_WORKER, REDIRECT_POSTGRES = 374, 167  # random keys, 16 connections
RECORDING_WORKER, RECORDING_POSTGRES = 431, 266  # the same with its visit
CREATE_WORKER, CREATE_POSTGRES = 1796, 263
# Measured: bytes, without full-page images. A link has a target of 60 characters.
ROW_BYTES, INDEX_BYTES = 136, 55
HIT_WAL, CREATE_WAL = 120, 351
# The same of a row of visits, which has all of one link, hour and kind; here of a visit more in it.
VISIT_BYTES, VISIT_INDEX_BYTES, VISIT_WAL = 118, 150, 112
# Measured: hits per second on one row, 16 clients of pgbench, a statement each.
ROW_RATE = 2_819

# Assumed.
PRUNING_WAL = 64  # bytes, of a dead row that is cleared away: for each hit, where pages are full
USABLE = 0.6  # of a processor: the rest is for peaks, vacuum, checkpoints, the kernel
REDIRECT_BYTES = 1_500  # both ways, with TCP and TLS
CHECKPOINT = 300  # seconds, PostgreSQL's checkpoint_timeout
PAGE = 8_192
DISK_HEADROOM = 2.0  # dead rows, write-ahead log, a table that is rebuilt


class Machine(NamedTuple):
    """What one machine has, for the service or for PostgreSQL."""

    cores: int = 16
    disk: float = 4e12  # bytes
    wal: float = 200e6  # bytes per second that its disk takes beside everything else
    network: float = 10e9 / 8  # bytes per second


@dataclass(frozen=True)
class Sizing:
    """What a load takes. Machines are whole ones; everything else is an average."""

    service_machines: int
    shards: int
    disk: float
    index: float
    wal: float
    full_pages: float
    network: float
    needs: dict[str, float]  # shards that each limit alone would ask for

    @property
    def first(self) -> str:
        """What is used up first on one PostgreSQL."""
        return max(self.needs, key=self.needs.__getitem__)


def full_page_images(redirects: float, size: float) -> float:
    """Return bytes per second of a table's pages that are written whole after each checkpoint.

    With keys at random, the worst case: who follows few links touches few pages.
    """
    pages = max(1.0, size / PAGE)
    touched = pages * -math.expm1(-redirects * CHECKPOINT / pages)
    return touched * PAGE / CHECKPOINT


def cores(redirects: float, creates: float, *, recording: bool) -> tuple[float, float]:
    """Return the processors that are busy: of the service, of PostgreSQL.

    `recording` says whether a redirect records its visit.
    """
    service = redirects * (RECORDING_WORKER if recording else REDIRECT_WORKER)
    postgres = redirects * (RECORDING_POSTGRES if recording else REDIRECT_POSTGRES)
    service += creates * CREATE_WORKER
    postgres += creates * CREATE_POSTGRES
    return service / 1e6, postgres / 1e6


def sizing(
    redirects: float, links: float, creates: float, machine: Machine, *, visits: float = 0
) -> Sizing:
    """Return what so many redirects and creates per second take, with so many links in all.

    `visits` is the number of rows of visits of a link, on average: of hours, days and kinds.
    """
    service, postgres = cores(redirects, creates, recording=visits > 0)
    network = redirects * REDIRECT_BYTES
    images = full_page_images(redirects, links * ROW_BYTES)
    per_hit = HIT_WAL + PRUNING_WAL
    if visits:
        images += full_page_images(redirects, links * visits * VISIT_BYTES)
        per_hit += VISIT_WAL + PRUNING_WAL
    wal = redirects * per_hit + creates * CREATE_WAL + images
    index = links * (INDEX_BYTES + visits * VISIT_INDEX_BYTES)
    disk = (links * (ROW_BYTES + visits * VISIT_BYTES) + index) * DISK_HEADROOM
    needs = {
        "the processors": postgres / (machine.cores * USABLE),
        "the disk space": disk / machine.disk,
        "the write-ahead log": wal / machine.wal,
    }
    machines = max(service / (machine.cores * USABLE), network / (machine.network * USABLE))
    return Sizing(
        service_machines=max(1, math.ceil(machines)),
        shards=max(1, math.ceil(max(needs.values()))),
        disk=disk,
        index=index,
        wal=wal,
        full_pages=images,
        network=network,
        needs=needs,
    )
