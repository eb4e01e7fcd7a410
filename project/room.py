"""Everything for a room without a network, in one archive: `make room`.

On another machine of the same kind, with the same Python: unpack it, and `make run` there installs
from the wheels inside and starts the service. Standard library only: nothing is installed yet.
"""

import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("locks/local.txt", "locks/loadtests.txt")  # to run, and for the load test
ARCHIVE = ROOT / ".local" / "shorturl-room.tar"
FOLDER = "shorturl-room"  # that the archive unpacks to
MADE_FOR = "made-for"  # the file beside the wheels that says for which machines they are


def kind() -> str:
    """Return the kind of this machine: its Python, system and processor, as wheels have them."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor} {sysconfig.get_platform()}"


def download(wheels: Path) -> None:
    """Download into `wheels` what running and load tests need, with the hashes of the locks."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]
    for lock in LOCKS:
        subprocess.run([*command, "-r", lock, "-d", str(wheels)], cwd=ROOT, check=True)  # noqa: S603
    (wheels / MADE_FOR).write_text(f"{kind()}\n")


def files() -> list[str]:
    """Return the paths of the files of the checkout, as they are now, new ones too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def pack(wheels: Path, archive: Path) -> None:
    """Write the archive: the files of the checkout, and those of `wheels`."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w") as tar:
        for path in files():
            tar.add(ROOT / path, f"{FOLDER}/{path}")
        for wheel in sorted(wheels.iterdir()):
            tar.add(wheel, f"{FOLDER}/wheels/{wheel.name}")


def refuse_another_kind(wheels: Path) -> None:
    """Exit with what is wrong unless the wheels are for this kind of machine."""
    made_for = (wheels / MADE_FOR).read_text().strip()
    if made_for != kind():
        sys.exit(f"The wheels are for {made_for}, and this is {kind()}: run `make room` on one.")


if __name__ == "__main__":
    if sys.argv[1:]:
        refuse_another_kind(Path(sys.argv[1]))
    else:
        downloaded = ROOT / ".local" / "wheels"
        download(downloaded)
        pack(downloaded, ARCHIVE)
        size = ARCHIVE.stat().st_size // 1_000_000
        print(f"{ARCHIVE.relative_to(ROOT)}, {size} MB, for {kind()}.")
        print(f"There: tar xf {ARCHIVE.name} && cd {FOLDER} && make run")
