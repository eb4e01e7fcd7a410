"""The memory of a gunicorn's workers."""

import psutil

MEGABYTE = 1024 * 1024
KINDS = {"rss": "RSS, MB", "uss": "USS, MB"}  # in all, and what would be free without them


def of_workers(master: psutil.Process) -> list[str]:
    """Return how much of each of KINDS all workers of `master` use."""
    infos = [worker.memory_full_info() for worker in master.children()]
    return [f"{sum(getattr(info, kind) for info in infos) / MEGABYTE:.1f}" for kind in KINDS]
