"""Directories that were copied, have odd names, belong to another account, or are unusable."""

import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_postgres.account import Account, grant_access
from embedded_postgres.server import LOG_LINES
from tests.conftest import TIMEOUT, Embedded, moved

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root has files of root, and runs PostgreSQL as another account"
)


def test_the_process_id_left_behind_now_is_another_process(embedded: Embedded) -> None:
    """The file may be whole, or have the process id alone."""
    client = embedded.client()
    client.ask("SELECT 1")
    left = (embedded.data / "postmaster.pid").read_text().splitlines()
    client.leave()
    owner = embedded.data.stat().st_uid
    other = subprocess.Popen(["sleep", "600"], user=owner if os.geteuid() == 0 else None)
    try:
        for rest in (left[1:], []):
            lines = [str(other.pid), *rest, ""]
            (embedded.data / "postmaster.pid").write_text("\n".join(lines))
            client = embedded.client()
            assert client.ask("SELECT 1") == [[1]]
            client.leave()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait(timeout=TIMEOUT)


def test_a_copied_directory_has_another_server(
    make: Callable[[str], Embedded], initialised: Path
) -> None:
    """The copy has the pid file of the original's running server."""
    original, copied = make("original"), make("copied")
    with moved(initialised, original):
        subprocess.run(["cp", "-a", original.directory, copied.directory], check=True)
        original.client().ask("SELECT 1")
        shutil.copy(original.data / "postmaster.pid", copied.data)
        assert copied.client().ask("SHOW data_directory") == [[str(copied.data)]]
        assert original.running().pid != copied.running().pid


@pytest.mark.parametrize("name", ["x" * 200, 'it\'s a, "fine" $HOME of `my` own \\ data'])
def test_a_path_that_is_long_or_odd(
    make: Callable[[str], Embedded], initialised: Path, name: str
) -> None:
    embedded = make(name)
    with moved(initialised, embedded):
        client = embedded.client()
        assert client.ask("SHOW data_directory") == [[str(embedded.data)]]
        sockets = embedded.running().socket_directory
        assert sockets.parent == Path("/tmp")
        embedded.kill_server()
        assert "connection" in client.ask("SELECT 1")
        assert client.ask("SELECT 1") == [[1]]
        assert not sockets.exists()
        sockets = embedded.running().socket_directory
        client.leave()
        assert not sockets.exists()


def test_a_server_that_cannot_start_says_why(
    embedded: Embedded, make: Callable[[str], Embedded]
) -> None:
    config = embedded.data / "postgresql.conf"
    text = config.read_text()
    config.write_text(text + "".join(f"wrong{number} = on\n" for number in range(LOG_LINES)))
    try:
        message = embedded.client().ask("SELECT 1")
    finally:
        config.write_text(text)
    assert f"The embedded PostgreSQL in {embedded.directory} did not start: it ended" in message
    assert f"The end of {embedded.directory / 'server.log'}:\n    " in message
    assert "contains errors" in message  # the last line
    assert "wrong0" not in message
    nowhere = make("file/postgres")
    nowhere.directory.parent.write_text("in the way")
    message = nowhere.client().ask("SELECT 1")
    assert f"The embedded PostgreSQL in {nowhere.directory} did not start" in message


@as_root
def test_root_opens_the_way_to_the_data_and_no_more(embedded: Embedded) -> None:
    passable = embedded.directory.parent
    passable.chmod(0o700)
    client = embedded.client()
    assert client.ask("SELECT 1") == [[1]]
    assert passable.stat().st_mode & 0o777 == 0o701
    _, errors = client.process.communicate(timeout=TIMEOUT)
    assert f"{passable} is now passable (o+x)" in errors


@as_root
def test_root_runs_postgresql_as_the_owner_of_the_data(embedded: Embedded) -> None:
    embedded.client().ask("SELECT 1")
    owner = embedded.data.stat().st_uid
    assert owner != 0
    for directory in (f"/proc/{embedded.running().pid}", embedded.running().socket_directory):
        assert Path(directory).stat().st_uid == owner


@as_root
def test_a_package_closed_by_a_strict_umask_is_opened(make: Callable[[str], Embedded]) -> None:
    directory = make("unused").directory.parent
    program, library = directory / "package/install/bin/postgres", directory / "package.libs/lib.so"
    for file, mode in ((program, 0o700), (library, 0o600)):
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/sh\ncat {library}")
        file.chmod(mode)
    for closed in (program.parent, *program.parent.parents[:2], library.parent):
        closed.chmod(0o700)
    account = Account(65534, 65534)  # nobody
    grant_access(account, directory / "data", program.parent)
    nobody = {"user": account.uid, "group": account.gid, "extra_groups": []}
    subprocess.run([program], check=True, stdout=subprocess.DEVNULL, **nobody)


@as_root
def test_root_starts_a_new_server_as_the_owner_of_its_directory(
    make: Callable[[str], Embedded],
) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    for owner, expected in ((nobody, "nobody"), (54_321, "pgserver")):  # the second has no name
        new = make(f"owned by {owner}")
        new.directory.mkdir()
        os.chown(new.directory, owner, -1)
        assert new.client().ask("SELECT 1") == [[1]]
        assert new.data.owner() == expected


@as_root
def test_data_that_belongs_to_root(embedded: Embedded) -> None:
    """As in a copy made by root. The command in the error message mends it."""
    files = [embedded.data, *embedded.data.rglob("*")]
    for file in files:
        os.chown(file, 0, 0, follow_symlinks=False)
    message = embedded.client().ask("SELECT 1")
    found = re.search("its data belongs to root, .* another account: (chown .*)", message)
    assert found, message
    subprocess.run(shlex.split(found[1]), check=True)
    assert embedded.client().ask("SELECT 1") == [[1]]
