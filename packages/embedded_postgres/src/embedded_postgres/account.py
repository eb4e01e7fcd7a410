"""The account that runs PostgreSQL: it refuses to run as root, so root needs another account."""

import logging
import os
import pwd
import shlex
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NAME = "pgserver"
USERADD_TIMEOUT = 30  # seconds

logger = logging.getLogger(__name__)


class Account(NamedTuple):
    uid: int
    gid: int


def account_for(data: Path) -> Account | None:
    """Return the account that runs PostgreSQL; None for the account of this process.

    For root it is the owner of the data. For new data it is the owner of the directory around, or
    the system account `pgserver` if that is root or has no name. The system account is created if
    needed. Raises OSError or SubprocessError when that fails, and PermissionError when the data
    belongs to root.
    """
    if os.geteuid() != 0:
        return None
    if not data.exists():
        owner = data.parent.stat()
        return Account(owner.st_uid, owner.st_gid) if is_usable(owner.st_uid) else system_account()
    owner = data.stat()
    if owner.st_uid == 0:  # as in a copy that root made
        system_account()
        raise PermissionError(
            "its data belongs to root, as which PostgreSQL refuses to run. Give it to another "
            f"account: chown -R {NAME}: {shlex.quote(str(data))}"
        )
    return Account(owner.st_uid, owner.st_gid)


def is_usable(uid: int) -> bool:
    """Return whether initdb runs as this account, which needs a name."""
    with suppress(KeyError):
        return uid != 0 and bool(pwd.getpwuid(uid))
    return False


def system_account() -> Account:
    """Return the account `pgserver`, which is created if needed."""
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
        subprocess.run(  # noqa: S603 - nothing in it comes from outside
            command, check=True, timeout=USERADD_TIMEOUT, capture_output=True
        )
        entry = pwd.getpwnam(NAME)
    return Account(entry.pw_uid, entry.pw_gid)


def grant_access(account: Account, data: Path, programs: Path) -> None:
    """Give the account access to its data and to the programs; raise OSError.

    Their parent directories become passable (o+x), not readable, and a warning names each of them.
    The installed package, which is public, becomes readable if a strict umask prevents that.
    """

    def may(path: Path, as_owner: int, as_other: int) -> bool:
        """Return whether the account has a permission: `as_owner` for its own path."""
        status = path.stat()
        return bool(status.st_mode & (as_owner if status.st_uid == account.uid else as_other))

    package = programs.parent.parent
    for directory in {*data.parents, *package.parents}:
        if not may(directory, stat.S_IXUSR, stat.S_IXOTH):
            logger.warning(
                "%s is now passable (o+x), for the account that PostgreSQL runs as", directory
            )
            directory.chmod(stat.S_IMODE(directory.stat().st_mode) | stat.S_IXOTH)
    if not may(programs / "postgres", stat.S_IRUSR, stat.S_IROTH):
        for top in (package, package.with_name(f"{package.name}.libs")):
            for path in (top, *top.rglob("*")):
                if not path.is_symlink():
                    mode = stat.S_IMODE(path.stat().st_mode)
                    passable = stat.S_IXOTH if mode & stat.S_IXUSR else 0
                    path.chmod(mode | stat.S_IROTH | passable)
