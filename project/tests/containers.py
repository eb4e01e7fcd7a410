"""The containers of docker-compose.yml, as closely as possible without Docker.

Each has a network namespace with a separate address. Its root directory, user, environment, mounts
and command are those of the Dockerfile and docker-compose.yml: read-only except for volumes and
tmpfs, without capabilities. These differ: /usr, /etc and Python are this machine's; a volume is a
directory; and the servers of images that are not built here are those of this machine.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from loadtests.harness.serving import wait_until
from project.tests.conftest import FILLED_IN, IGNORED, ROOT

UID = "10001"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", sys.base_prefix, sys.prefix)
TIMEOUT = 90  # seconds
PATH = f"{sys.prefix}/bin:/usr/sbin:/usr/bin:/bin"
ENTRIES = {"prom/prometheus": ["prometheus"]}  # of images that are not built here
# In a new mount namespace: $1 is the new root, $2 /etc/hosts, then come the mounts and the command.
ENTER = r"""
set -e
mount --make-rprivate /
root=$1; shift; hosts=$1; shift
bind() { if [ -d "$1" ]; then mkdir -p "$2"; else mkdir -p "${2%/*}"; touch "$2"; fi
         mount --bind "$1" "$2"; }
mount -t tmpfs -o mode=755 none "$root"
while [ "$1" != -- ]; do case $1 in
  tmpfs:*) mkdir -p "$root${1#*:}"; mount -t tmpfs -o mode=1777 none "$root${1#*:}" ;;
  *) bind "${1%%:*}" "$root${1#*:}" ;;
esac; shift; done; shift
mount --bind "$hosts" "$root/etc/hosts"
mkdir "$root/proc" "$root/dev"; mount -t proc none "$root/proc"; mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""
POSTGRES = """
import sys
from contextlib import closing
from loadtests.harness.own_postgres import own_postgres
with own_postgres(listen=sys.argv[1]) as server:
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE shorturl SUPERUSER LOGIN")
        connection.commit()
    print("ready", flush=True)
    sys.stdin.read()
"""
SETPRIV = [
    "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs",
    "--bounding-set=-all", "--inh-caps=-all",
    "--pdeathsig=keep",  # --kill-child needs it, and a change of the user would clear it
]  # fmt: skip


def parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def stage(target: str) -> dict[str, list[str]]:
    """Return the arguments of a Dockerfile target and its bases, by instruction."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    stages = rf"^FROM (\S+) AS {target}\n(.*?)(?=^FROM|\Z)"
    [(base, own)] = re.findall(stages, text, re.MULTILINE | re.DOTALL)
    said = stage(base) if f" AS {base}\n" in text else defaultdict(list)
    for instruction, rest in re.findall(r"^([A-Z]+) (.+)$", own, re.MULTILINE):
        said[instruction].append(rest)
    return said


def copied(target: str) -> Iterator[tuple[Path, Path]]:
    """Yield the paths in the checkout and in the image of a target."""
    for rest in stage(target)["COPY"]:
        *given, there = rest.split()
        if not given[0].startswith("--from="):
            yield from ((ROOT / each, Path("/app", there)) for each in given)
        elif there == "/app":
            yield from copied(given[0].removeprefix("--from="))


class Composed:
    """The services of docker-compose.yml, started one by one. Use composed() to have them."""

    def __init__(self, directory: Path, variables: dict[str, str], stack: ExitStack) -> None:
        self.directory, self._stack = directory, stack

        def value(found: re.Match[str]) -> str:
            name, how, rest = found.groups()
            assert variables.get(name) or how == "-", f"{name}: {rest}"
            return variables.get(name) or rest

        text = (ROOT / "docker-compose.yml").read_text()
        compose = parsed(re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text))
        self.services: dict[str, Any] = compose["services"]
        self.configs: dict[str, Any] = compose["configs"]
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._prefix = f"c{os.getpid()}"
        self._addresses = {name: f"10.77.0.{n}" for n, name in enumerate(self.services, 2)}
        self._namespace("")
        self._ip("-n", self._prefix, "link", "add", "bridge", "type", "bridge")
        self._ip("-n", self._prefix, "addr", "add", "10.77.0.1/24", "dev", "bridge")
        self._ip("-n", self._prefix, "link", "set", "bridge", "up")
        hosts = [f"{address} {name}\n" for name, address in self._addresses.items()]
        # Its alias in the network of the load test.
        hosts += ["127.0.0.1 localhost\n", f"{self._addresses['loadtest-web']} web\n"]
        (directory / "hosts").write_text("".join(hosts))

    def postgres(self, name: str) -> None:
        """Start a PostgreSQL in the container's place, whose user has all rights."""
        command = [*self._join(name), sys.executable, "-c", POSTGRES, self._addresses[name]]
        process = self._popen(name, command, stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout
        assert process.stdout.readline() == "ready\n", self.log(name)

    def start(self, name: str, *, number: int = 0) -> "subprocess.Popen[str]":
        """Start a service's command in a container; `number` is its place among its replicas."""
        service = self.services[name]
        assert service.get("read_only") or service.get("configs")
        assert service["cap_drop"] == ["ALL"]
        entry: list[str] = ENTRIES.get(service["image"].partition(":")[0], [])
        command = service.get("command")
        environment, image, owned = {"HOME": "/home/shorturl"}, [], [""]
        if "build" in service:
            said = stage(service["build"]["target"])
            entry = parsed(said["ENTRYPOINT"][-1]) if said["ENTRYPOINT"] else []
            command = command or parsed(said["CMD"][-1])
            environment |= dict(each.split("=", 1) for rest in said["ENV"] for each in rest.split())
            image = [*self._image(service["build"]["target"])]
            made = re.findall(r"install --directory --owner=shorturl (\S+)", "\n".join(said["RUN"]))
            owned = [f"/app/{each}" for each in made]
        if "env_file" in service:
            lines = (self.directory / ".env").read_text().splitlines()
            environment |= dict(each.split("=", 1) for each in lines if re.match("[A-Z]", each))
        for variable, given in service.get("environment", {}).items():
            environment[variable] = "" if given is None else str(given)
        environment["PATH"] = PATH
        binds = [f"tmpfs:{each}" for each in service.get("tmpfs", ())]
        binds += [f"{each}:{each}" for each in SYSTEM if Path(each).exists()]
        binds += [*image, *self._mounts(service, owned)]
        root = self.directory / f"{name}-{number}"
        root.mkdir()
        network = ["ip", "netns", "exec", f"{self._prefix}-{name}"] if number else self._join(name)
        return self._popen(name, [
            *network, "unshare", "--mount", "--pid", "--fork", "--kill-child",
            "sh", "-c", ENTER, "-", str(root), str(self.directory / "hosts"), *binds, "--",
            *SETPRIV, "env", "-i", "--chdir=" + ("/app" if image else "/"),
            *(f"{variable}={value}" for variable, value in environment.items()),
            *entry, *(command or ()),
        ])  # fmt: skip

    def ask(
        self, address: str, data: str = "", *, kind: str = "application/json"
    ) -> tuple[str, str]:
        """Send a request from outside of all containers; return status and Location, and the body.

        It is repeated until there is an answer other than 503.
        """
        name, _, rest = address.partition(":")
        command = [
            "ip", "netns", "exec", self._prefix, "curl", "--silent", "--noproxy", "*",
            "--max-time", "5", "--write-out", r"\n%{http_code} %{redirect_url}",
            "--header", "Host: example.com", "--header", f"Content-Type: {kind}",
            *(["--data", data] if data else []), f"http://{self._addresses[name]}:{rest}",
        ]  # fmt: skip
        answers: list[str] = []

        def is_answered() -> bool:
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            answers.append(ended.stdout)
            return ended.returncode == 0 and not ended.stdout.endswith("\n503 ")

        try:
            wait_until(is_answered, f"{address} does not answer", TIMEOUT)
        except TimeoutError as error:
            logs = "".join(f"\n{each}: {self.log(each)}" for each in self.processes)
            raise AssertionError(f"{answers[-1]}{logs}") from error
        body, _, told = answers[-1].rpartition("\n")
        return told.strip(), body

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()[-2000:]

    def volume(self, name: str) -> Path:
        return self.directory / "volumes" / name

    def kill(self, name: str) -> None:
        """Kill the first process of a container, and wait until all its processes have ended."""
        [first] = psutil.Process(self.processes[name].pid).children()
        first.kill()  # the kernel kills the other processes of its namespace before it ends
        self.processes[name].wait()

    def _popen(self, name: str, command: list[str], **options: Any) -> "subprocess.Popen[str]":
        with (self.directory / f"{name}.log").open("a") as log:
            options = {"stdout": log, "stderr": log, "stdin": subprocess.PIPE, **options}
            process = subprocess.Popen(command, text=True, **options)
        self._stack.callback(end, process)
        self.processes[name] = process
        return process

    def _image(self, target: str) -> Iterator[str]:
        """Return the mounts of the files that an image has from the checkout."""
        root = self.directory / f"image-{target}"
        is_new, mounts = not root.exists(), {"/app": root / "app"}
        for source, there in copied(target):
            place = root / there.relative_to("/")
            copy = place if source.is_dir() else place / source.name
            if is_new:  # or a container would find a file empty while it is written again
                place.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, place, ignore=IGNORED, dirs_exist_ok=True)
                else:
                    shutil.copy(source, place)
            if not there.is_relative_to("/app"):
                mounts[str(there / copy.name)] = copy
        (root / "app").mkdir(parents=True, exist_ok=True)
        if is_new and (root / "app" / "manage.py").exists():
            shutil.copytree(self.directory / "staticfiles", root / "app" / "staticfiles")
        return (f"{source}:{there}" for there, source in mounts.items())

    def _mounts(self, service: dict[str, Any], owned: list[str]) -> Iterator[str]:
        """Yield the volumes and configs of a service; it may write to those that it owns."""
        for each in service.get("volumes", ()):
            source, target = each.split(":")[:2]
            if source.startswith("./"):
                yield f"{ROOT / source}:{target}"
                continue
            directory = self.volume(source)
            if not directory.exists():
                directory.mkdir(parents=True)
                if "build" not in service or target in owned:
                    os.chown(directory, int(UID), int(UID))
            yield f"{directory}:{target}"
        for name in service.get("configs", ()):
            file = self.directory / name
            file.write_text(self.configs[name]["content"])
            yield f"{file}:/{name}"

    def _join(self, name: str) -> list[str]:
        """Give the container `name` a network; return the prefix of a command in it."""
        namespace, link = self._namespace(f"-{name}"), self._addresses[name].replace(".", "-")
        self._ip("-n", self._prefix, "link", "add", link, "type", "veth",
                 "peer", "eth0", "netns", namespace)  # fmt: skip
        self._ip("-n", self._prefix, "link", "set", link, "master", "bridge", "up")
        self._ip("-n", namespace, "addr", "add", f"{self._addresses[name]}/24", "dev", "eth0")
        self._ip("-n", namespace, "link", "set", "eth0", "up")
        return ["ip", "netns", "exec", namespace]

    def _namespace(self, name: str) -> str:
        self._ip("netns", "add", self._prefix + name)
        self._stack.callback(self._ip, "netns", "del", self._prefix + name)
        self._ip("-n", self._prefix + name, "link", "set", "lo", "up")
        return self._prefix + name

    def _ip(self, *arguments: str) -> str:
        return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def end(process: "subprocess.Popen[str]") -> None:
    """End a container with all its processes, or a stand-in by the end of its input."""
    assert process.stdin
    process.stdin.close()
    if process.stdout:
        process.stdout.read()
        process.stdout.close()
    else:
        process.kill()
    process.wait()


def why_not() -> str:
    """Return why this machine cannot have such containers; empty if it can."""
    if sys.platform != "linux" or os.geteuid():
        return "namespaces need Linux and root"
    for program in ("ip", "unshare", "setpriv", "chroot", "curl"):
        if not shutil.which(program):
            return f"the command {program} is missing"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True
    )
    return tried.stderr.decode().strip()


@contextmanager
def composed(directory: Path, production_copy: Path, **more: str) -> Iterator[Composed]:
    """Yield the containers of docker-compose.yml, not started yet; end them after the block.

    `more` are further variables of .env.
    """
    if reason := why_not():
        pytest.skip(reason)
    directory.chmod(0o755)
    settings = "".join(f"{name}={value}\n" for name, value in more.items())
    (directory / ".env").write_text((production_copy / ".env").read_text() + settings)
    shutil.copytree(production_copy / "staticfiles", directory / "staticfiles")
    with ExitStack() as stack:
        yield Composed(directory, FILLED_IN | more, stack)
