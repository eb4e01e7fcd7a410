"""Containers as docker-compose.yml has them, as closely as a machine without Docker can.

Each has a network namespace with an address of its own, and its root directory, user, environment,
mounts and command as the Dockerfile and docker-compose.yml say: read-only but for the volumes and
tmpfs, without capabilities. What differs: /usr, /etc and Python are this machine's; a volume is a
directory; and the servers of images that are not built here are those of this machine.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from ruamel.yaml import YAML

from project.tests.conftest import IGNORED, ROOT

UID = "10001"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
TIMEOUT = 90  # seconds
ENTRIES = {"prom/prometheus": ["prometheus"]}  # of images that are not built here
# In a mount namespace of its own: $1 is the new root, $2 /etc/hosts, then what to run there.
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
ASK = """
import sys, time, urllib.request
url, data, patience, kind = sys.argv[1:]
deadline = time.monotonic() + float(patience)
class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_): return None
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay)
headers = {"Content-Type": kind, "Host": "example.com"}
while True:
    try:
        answer = opener.open(urllib.request.Request(url, data.encode() or None, headers), timeout=5)
    except urllib.error.HTTPError as error:
        answer = error
    except OSError as error:
        answer = None
        if time.monotonic() > deadline: sys.exit(f"{url}: {error}")
    if answer and (answer.status != 503 or time.monotonic() > deadline): break
    time.sleep(.1)
print(answer.status, answer.headers.get("Location", ""), answer.read().decode(), sep="\\n")
"""


class Stage(NamedTuple):
    """What a target of the Dockerfile leaves in its image, of what matters here."""

    environment: dict[str, str]
    command: list[str]
    entry: list[str]
    sources: list[tuple[str, str]]
    volumes: list[str]  # directories that belong to the user


def stage(target: str) -> Stage:
    """Read a target and those that it is built from."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    flags = re.MULTILINE | re.DOTALL
    stages = dict(re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM|\Z)", text, flags))
    (base,) = re.findall(rf"^FROM (\S+) AS {target}$", text, re.MULTILINE)
    built = stage(base) if base in stages else Stage({}, [], [], [], [])
    environment, command, entry = dict(built.environment), built.command, built.entry
    sources, volumes = list(built.sources), list(built.volumes)
    for name, rest in re.findall(r"^([A-Z]+) (.+)$", stages[target], re.MULTILINE):
        match name:
            case "ENV":
                environment |= dict(each.split("=", 1) for each in rest.split())
            case "CMD":
                command = YAML(typ="safe", pure=True).load(rest)
            case "ENTRYPOINT":
                entry = YAML(typ="safe", pure=True).load(rest)
            case "COPY" if copied := re.fullmatch(r"--from=(\S+) /app /app", rest):
                sources += stage(copied[1]).sources
            case "COPY" if not rest.startswith("--from"):
                *given, there = rest.split()
                sources += [(each, there) for each in given]
            case "RUN" if made := re.fullmatch(r"install --directory --owner=shorturl (\S+)", rest):
                volumes.append(made[1])
    return Stage(environment, command, entry, sources, volumes)


def interpolated(value: Any, variables: dict[str, str]) -> Any:
    """Return `value` with ${NAME:-default} and ${NAME:?message} as Compose replaces them."""
    if isinstance(value, dict):
        return {name: interpolated(each, variables) for name, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def replace(found: re.Match[str]) -> str:
        name, how, rest = found.groups()
        assert variables.get(name) or how == "-", f"{name}: {rest}"
        return variables.get(name) or rest

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", replace, value)


class Composed:
    """The services of docker-compose.yml, started one by one. Use composed() to have them."""

    def __init__(self, directory: Path, variables: dict[str, str], stack: ExitStack) -> None:
        self.directory, self.variables, self._stack = directory, variables, stack
        compose = YAML(typ="safe", pure=True).load(ROOT / "docker-compose.yml")
        self.services: dict[str, Any] = interpolated(compose["services"], variables)
        self.configs: dict[str, Any] = interpolated(compose["configs"], variables)
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._prefix = f"c{os.getpid()}"
        self._addresses: dict[str, str] = {}
        self._namespace("")
        self._ip("-n", self._prefix, "link", "add", "bridge", "type", "bridge")
        self._ip("-n", self._prefix, "addr", "add", "10.77.0.1/24", "dev", "bridge")
        self._ip("-n", self._prefix, "link", "set", "bridge", "up")
        hosts = ["127.0.0.1 localhost"]
        for number, (name, service) in enumerate(self.services.items(), 2):
            self._addresses[name] = f"10.77.0.{number}"
            networks = service.get("networks", ())
            aliases = [
                alias for each in networks if isinstance(networks, dict)
                for alias in networks[each].get("aliases", ())
            ]  # fmt: skip
            hosts.append(" ".join([self._addresses[name], name, *aliases]))
        self.hosts = directory / "hosts"
        self.hosts.write_text("\n".join([*hosts, ""]))

    def join(self, name: str) -> list[str]:
        """Give the container `name` a network; return how to run something in it."""
        namespace = self._namespace(f"-{name}")
        link = f"v{len(self._addresses)}-{[*self.services].index(name)}"
        here = ("-n", self._prefix)
        self._ip(*here, "link", "add", link, "type", "veth", "peer", "eth0", "netns", namespace)
        self._ip(*here, "link", "set", link, "master", "bridge", "up")
        self._ip("-n", namespace, "addr", "add", f"{self._addresses[name]}/24", "dev", "eth0")
        self._ip("-n", namespace, "link", "set", "eth0", "up")
        return ["ip", "netns", "exec", namespace]

    def postgres(self, name: str, script: str = "SELECT") -> None:
        """Start a PostgreSQL in the container's place, in which its user has all rights.

        `script` is the SQL of what its image has beyond PostgreSQL.
        """
        code = (
            "import sys\nfrom contextlib import closing\n"
            "from loadtests.harness.own_postgres import own_postgres\n"
            f"with own_postgres(listen={self._addresses[name]!r}) as server:\n"
            "    with closing(server.connect()) as connection, connection.cursor() as cursor:\n"
            "        cursor.execute('CREATE ROLE shorturl SUPERUSER LOGIN')\n"
            "        cursor.execute(sys.argv[1])\n"
            "        connection.commit()\n"
            "    print('ready', flush=True)\n"
            "    sys.stdin.read()\n"
        )
        command = [*self.join(name), sys.executable, "-c", code, script]
        process = self._popen(name, command, cwd=ROOT)
        assert process.stdout
        assert process.stdout.readline() == "ready\n", self.log(name)

    def start(self, name: str, *, number: int = 0) -> "subprocess.Popen[str]":
        """Start a service's command in a container; `number` is its place among its replicas."""
        service = self.services[name]
        build, (there, _, _) = service.get("build"), service["image"].partition(":")
        image = stage(build["target"]) if build else Stage({}, [], ENTRIES.get(there, []), [], [])
        root = self.directory / f"{name}-{number}"
        root.mkdir()
        path = "/usr/sbin:/usr/bin:/bin"
        environment = {"HOME": "/home/shorturl", "PATH": path}
        environment |= image.environment | self._env_file(service)
        environment |= {name: str(value) for name, value in service.get("environment", {}).items()}
        environment["PATH"] = "/venv/bin:" + environment["PATH"].replace("$PATH", path)
        binds = [f"{path}:{path}" for path in (*SYSTEM, sys.base_prefix) if Path(path).exists()]
        binds += [f"{sys.prefix}:/venv"]
        for target in ("etc", "venv/bin"):
            binds += [
                f"{each}:/{target}/{each.name}" for each in (self.directory / target).iterdir()
            ]
        binds += [*self._app(name, image), *self._volumes(service, image)]
        assert service.get("read_only") or service.get("configs")
        assert service["cap_drop"] == ["ALL"]
        binds += [f"tmpfs:{path}" for path in service.get("tmpfs", ())]
        inner = [
            "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "--inh-caps=-all",
            "--pdeathsig=keep",  # by which --kill-child works, and another user has none
            "env", "-i", "--chdir=/app",
            *(f"{name}={value}" for name, value in environment.items()),
            *image.entry, *service.get("command", image.command),
        ]  # fmt: skip
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "-"]
        where = self.join(name) if not number else ["ip", "netns", "exec", f"{self._prefix}-{name}"]
        return self._popen(
            name, [*where, *command, str(root), str(self.hosts), *binds, "--", *inner]
        )

    def ask(
        self, address: str, data: str = "", *, wait: float = TIMEOUT, kind: str = "application/json"
    ) -> tuple[str, str]:
        """Ask a port from outside of all containers; return status and Location, and the body.

        It is asked again for `wait` seconds while nobody answers, or with a 503.
        """
        name, _, rest = address.partition(":")
        url = f"http://{self._addresses[name]}:{rest}"
        where = ["ip", "netns", "exec", self._prefix]
        ended = subprocess.run(
            [*where, sys.executable, "-c", ASK, url, data, str(wait), kind],
            capture_output=True, text=True, check=False, timeout=2 * TIMEOUT,
        )  # fmt: skip
        logs = "".join(f"\n{each}: {self.log(each)}" for each in self.processes)
        assert ended.returncode == 0, ended.stderr + logs
        status, location, body = ended.stdout.split("\n", 2)
        return f"{status} {location}".strip(), body

    def log(self, name: str) -> str:
        """Return what a service printed."""
        return (self.directory / f"{name}.log").read_text()[-2000:]

    def volume(self, name: str) -> Path:
        """Return the directory that is a volume."""
        return self.directory / "volumes" / name

    # --- How it is done --------------------------------------------------------------------------

    def _popen(self, name: str, command: list[str], **options: Any) -> "subprocess.Popen[str]":
        with (self.directory / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE if options else log,
                stderr=log, text=True, **options,
            )  # fmt: skip
        self._stack.callback(end, process)
        self.processes[name] = process
        return process

    def _env_file(self, service: dict[str, Any]) -> dict[str, str]:
        if "env_file" not in service:
            return {}
        lines = (self.directory / ".env").read_text().splitlines()
        return dict(each.split("=", 1) for each in lines if each and not each.startswith("#"))

    def _app(self, name: str, image: Stage) -> list[str]:
        app = self.directory / f"{name}-app"
        if not app.exists():
            app.mkdir()
            for source, there in image.sources:
                if there.startswith("/") or source.startswith("locks/"):
                    continue
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, app / there, ignore=IGNORED, dirs_exist_ok=True)
                else:
                    shutil.copy(ROOT / source, app / there)
            if (app / "manage.py").exists():
                shutil.copytree(self.directory / "staticfiles", app / "staticfiles")
        return [f"{app}:/app"] + [
            f"{ROOT / source}:{there}{Path(source).name}"
            for source, there in image.sources
            if there.startswith("/")
        ]

    def _volumes(self, service: dict[str, Any], image: Stage) -> Iterator[str]:
        for each in service.get("volumes", ()):
            source, target = each.split(":")[:2]
            if source.startswith("./"):
                yield f"{ROOT / source}:{target}"
                continue
            directory = self.volume(source)
            if not directory.exists():
                directory.mkdir(parents=True)
                if "build" not in service or target.removeprefix("/app/") in image.volumes:
                    os.chown(directory, int(UID), int(UID))
            yield f"{directory}:{target}"
        for name in service.get("configs", ()):
            file = self.directory / name
            file.write_text(self.configs[name]["content"])
            yield f"{file}:/{name}"

    def _namespace(self, name: str) -> str:
        self._ip("netns", "add", self._prefix + name)
        self._stack.callback(self._delete, self._prefix + name)
        self._ip("-n", self._prefix + name, "link", "set", "lo", "up")
        return self._prefix + name

    def _delete(self, namespace: str) -> None:
        """Remove a network namespace, in which every process has to be ended by now."""
        inside = self._ip("netns", "pids", namespace).split()
        running = [each for each in psutil.process_iter() if str(each.pid) in inside]
        _, left = psutil.wait_procs(running, timeout=10)
        self._ip("netns", "del", namespace)
        assert not left, left

    def _ip(self, *arguments: str) -> str:
        return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def end(process: "subprocess.Popen[str]") -> None:
    """End a container with all that runs in it, and a stand-in by the end of its input."""
    if process.stdin:
        process.stdin.close()
    if process.stdout:
        process.stdout.read()
        process.stdout.close()
    else:
        process.kill()
    process.wait()


def why_not() -> str:
    """Return why this machine cannot have such containers, or nothing."""
    if sys.platform != "linux" or os.geteuid():
        return "it takes Linux and root: without Docker, namespaces are made by hand"
    for program in ("ip", "unshare", "setpriv", "chroot"):
        if not shutil.which(program):
            return f"the command {program} is missing"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True
    )
    return tried.stderr.decode().strip()


@contextmanager
def composed(directory: Path, production_copy: Path, **variables: str) -> Iterator[Composed]:
    """Have the containers of docker-compose.yml, none of them started; end them after the block."""
    if reason := why_not():
        pytest.skip(reason)
    directory.chmod(0o755)
    shutil.copy(production_copy / ".env", directory)
    shutil.copytree(production_copy / "staticfiles", directory / "staticfiles")
    (directory / "etc").mkdir()
    users = f"{Path('/etc/passwd').read_text()}shorturl:x:{UID}:{UID}::/home/shorturl:/bin/false\n"
    (directory / "etc" / "passwd").write_text(users)
    programs = directory / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("gunicorn", "locust"):  # whose first line names this checkout's Python
        _, _, rest = Path(sys.prefix, "bin", name).read_text().partition("\n")
        (programs / name).write_text(f"#!/venv/bin/python\n{rest}")
        (programs / name).chmod(0o755)
    with ExitStack() as stack:
        yield Composed(directory, variables, stack)
