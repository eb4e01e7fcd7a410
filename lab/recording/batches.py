"""Explorations started from a page: one at a time, in a separate process, and bounded."""

import atexit
import subprocess
import sys
import threading
from contextlib import suppress

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.utils import timezone

from lab.exceptions import AlreadyExploring
from lab.models import Batch, Recording
from lab.recording.jobs import jobs_named

LOCK = 0x6C6162  # "lab": the holder of this advisory lock explores
INTERRUPTED = "Interrupted"  # the problem of a batch that was stopped begins with this
GRACE = 15  # seconds in which a batch must get the lock


def lock(using: str = DEFAULT_DB_ALIAS) -> bool:
    """Take the lock for the rest of the session; return whether it was free."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        return bool(cursor.fetchone()[0])


def wait_for_lock(using: str, seconds: float) -> bool:
    """Wait for another exploration to end; return whether the lock was got in time."""
    with connections[using].cursor() as cursor:
        limits = "SELECT set_config('lock_timeout', %s, false), set_config(%s, '0', false)"
        cursor.execute(limits, [f"{seconds * 1000:.0f}ms", "statement_timeout"])
        with suppress(OperationalError):
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            return True
    return False


def unlock(using: str) -> None:
    """Release the lock at once; closing the session releases it a moment later."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def is_locked() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s"
            " AND classid = 0"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [LOCK],
        )
        return bool(cursor.fetchone()[0])


def start(what: str, total: int, *options: str) -> Batch:
    """Start to explore `what` in a process that ends with this one; return the batch.

    The `options` are those of the command `record`. If this process is killed, the exploration
    continues to its bounded end. Raises AlreadyExploring while another batch is running. Two
    batches can start at the same moment: the lock lets one continue, and the page of the other one
    says that it was refused.
    """
    if is_locked():
        raise AlreadyExploring
    batch = Batch.objects.create(what=what, total=total)
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "record", what]
    command += [*options, f"--batch={batch.pk}"]
    command += [f"--database={connection.settings_dict['NAME']}"]
    process = subprocess.Popen(  # noqa: S603 - `what` names an exploration
        command,
        cwd=settings.BASE_DIR,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(process.terminate)  # does nothing if it has ended
    threading.Thread(target=process.wait, daemon=True).start()
    return batch


def start_the_first() -> None:
    """Start to explore everything, unless a recording exists or a batch is running or has failed.

    A batch that was interrupted, for example by a stop of the service, is continued.
    """
    newest = Batch.objects.order_by("-pk").first()
    if newest and not is_over(newest):
        return
    interrupted = newest and was_interrupted(newest)
    if interrupted or not (Recording.objects.exists() or (newest and newest.problem)):
        with suppress(AlreadyExploring):
            start("all", len(jobs_named("all")), "--missing")


def is_over(batch: Batch) -> bool:
    return bool(batch.ended_at) or is_lost(batch)


def was_interrupted(batch: Batch) -> bool:
    return batch.problem.startswith(INTERRUPTED) or is_lost(batch)


def is_lost(batch: Batch) -> bool:
    """Return whether the process of `batch` was killed or never started."""
    if batch.ended_at:
        return False
    old = (timezone.now() - batch.started_at).total_seconds() > GRACE
    newer = Batch.objects.filter(pk__gt=batch.pk, ended_at=None)
    return old and (not is_locked() or newer.exists())
