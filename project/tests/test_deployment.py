"""The parts of a production: packages, static files, image, Compose files."""

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from itertools import chain
from pathlib import Path
from subprocess import PIPE, CompletedProcess
from threading import Thread
from urllib.request import urlopen
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from loadtests.servers import wait_for_address
from project.environment import variables
from project.tests.conftest import (
    GUNICORN,
    PRODUCTION,
    ROOT,
    Load,
    database,
    list_image_sources,
    run_in,
)

COMPOSE_FILES = [ROOT / "docker-compose.yml", ROOT / "deploy" / "scale.yml"]
BASE, SCALED = (yaml.safe_load(path.read_text())["services"] for path in COMPOSE_FILES)


def read_deployed(name: str) -> str:
    return (ROOT / "deploy" / name).read_text()


def read_pins(name: str) -> dict[str, str]:
    """Return the packages that a requirements file, or one it names, pins, with their versions."""
    text = (ROOT / "requirements" / name).read_text()
    pinned = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    packages: dict[str, str] = {canonicalize_name(name): version for name, version in pinned}
    for other in re.findall(r"^-r (\S+)", text, re.MULTILINE):
        packages |= read_pins(other)
    return packages


@pytest.mark.parametrize("group", ["production", "local", "loadtests", "development"])
def test_the_lock_has_the_requirements_and_their_dependencies(group: str) -> None:
    """pip installs only what the lock names.

    A dependency that is missing there would be an ImportError in production.
    """
    locked = read_pins(f"{group}.txt")
    assert read_pins(f"{group}.in").items() <= locked.items(), "run requirements/lock"
    # The groups are installed together, and have the same version of a package.
    in_any_group = {**read_pins("development.txt"), **read_pins("parser.txt")}
    assert locked.items() <= in_any_group.items(), "run requirements/lock"
    for name, version in locked.items():
        with suppress(metadata.PackageNotFoundError):  # only another platform needs it
            assert metadata.version(name) == version, "run make .venv/installed"
            for line in metadata.requires(name) or []:
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(requirement.name) in locked, f"{name} needs it"


CHECK_AND_GET_PAGES = """
import json, sys
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check", deploy=True, fail_level="WARNING", stdout=sys.stderr)
client = Client(headers={"host": "example.com"})
print(json.dumps({path: client.get(path, secure=True).text for path in sys.argv[1:]}))
"""


def test_a_production_has_no_warnings_and_its_pages_name_their_files_by_hash(
    production_copy: Path,
) -> None:
    """No page uses the database, and a file that is not collected would be an error."""
    texts = dict.fromkeys(["/", "/account/login/", "/admin/login/", "/api/docs"], "Log in")
    texts["/no/such/page"] = "Page not found"
    texts["/lab/"] = "The lab is off"
    texts["/account/password_reset/"] = "This service sends no e-mail"
    settings = {"DJANGO_SETTINGS_MODULE": "project.settings"}
    ended = run_in(production_copy, "-c", CHECK_AND_GET_PAGES, *texts, **settings)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == "System check identified no issues (2 silenced).\n"
    for path, page in json.loads(ended.stdout).items():
        names = re.findall(r'(?:src|href)="/static/([^"#]+)', page)
        assert names, path
        assert texts[path] in page, path
        for name in names:
            assert re.search(r"\.[0-9a-f]{12}\.\w+$", name), f"{path}: {name}"
            assert (production_copy / "staticfiles" / name).is_file()


@pytest.mark.django_db(transaction=True)
def test_commands_and_the_start_name_the_migrations_that_are_missing(production_copy: Path) -> None:
    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        for command, code in (("webhook list", 1), ("export_links -", 2)):
            ended = run_in(production_copy, "manage.py", *command.split(), DATABASE_URL=url)
            assert ended.returncode == code
            (line,) = ended.stderr.splitlines()
            assert re.search("The database: relation .* does not exist", line, re.IGNORECASE)
            assert "Apply the migrations first: manage.py migrate" in line
        variables = {"DATABASE_URL": url, "PORT": "0", "WORKERS": "1"}
        with subprocess.Popen(
            [sys.executable, *GUNICORN],
            cwd=production_copy, env={"PATH": os.environ["PATH"], **variables},
            stdout=PIPE, stderr=PIPE, text=True,
        ) as process:  # fmt: skip
            # After its worker answers: a new worker ignores SIGTERM.
            urlopen(f"{wait_for_address(process)}/healthz").close()
            process.terminate()
            _, log = process.communicate()
    assert re.search(r'": "Migrations are not applied: all \d+\. Run manage\.py migrate\."', log)


@pytest.mark.django_db(transaction=True)
def test_migrate_says_in_a_line_that_another_role_owns_the_tables(production_copy: Path) -> None:
    def migrate(url: str, **variables: str) -> CompletedProcess[str]:
        command = ["manage.py", "migrate", "contenttypes", "0001"]
        return run_in(production_copy, *command, DATABASE_URL=url, **variables)

    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        assert migrate(url).returncode == 0
        ended = migrate(url, PGOPTIONS="-c role=pg_monitor")  # any role that owns no table
    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        without_schema = migrate(url, PGOPTIONS="-c role=pg_monitor")
    what_now = "The role of DATABASE_URL has to own the database and all tables\n"
    refusal = "manage.py: the database: permission denied for table django_migrations. "
    assert ended.stderr == refusal + what_now
    assert re.fullmatch(
        rf"manage.py: .* permission denied for schema public\. {what_now}", without_schema.stderr
    )


@pytest.mark.django_db(transaction=True)
def test_accounts_that_differ_in_case_alone_are_a_line_of_migrate_and_createsuperuser(
    production_copy: Path,
) -> None:
    def manage(*command: str) -> CompletedProcess[str]:
        password = {"DJANGO_SUPERUSER_PASSWORD": secrets.token_hex()}
        return run_in(production_copy, "manage.py", *command, DATABASE_URL=url, **password)

    def create(name: str) -> CompletedProcess[str]:
        return manage("createsuperuser", "--noinput", f"--username={name}", "--email=a@example.com")

    line = "manage.py: the database: .* Two accounts may not differ in case alone: choose .*\n"
    with database(f"shorturl_{secrets.token_hex(8)}") as url:
        assert manage("migrate").returncode == 0
        assert create("ann").returncode == 0
        assert re.fullmatch(line, create("Ann").stderr)
        # As a database was before there was the index.
        assert manage("migrate", "project", "zero").returncode == 0
        assert create("Ann").returncode == 0
        ended = manage("migrate")
        assert re.fullmatch(line, ended.stderr)
        assert "(ann) is duplicated" in ended.stderr


def test_the_image_has_only_the_service(production_copy: Path) -> None:
    names = {path.name for path in production_copy.iterdir()}
    assert not names & {"lab", "pginterleave", "embedded_postgres", "loadtests"}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines, "all other files stay out"
    copied = {*list_image_sources()} - {"requirements/production.txt"}  # requirements/ is let in
    assert {f"!{source}" for source in copied} <= {*lines}


def test_the_health_check_of_the_image_asks_healthz_for_a_200() -> None:
    (code,) = re.findall(r'CMD \["python", "-c", "(.+)"\]', (ROOT / "Dockerfile").read_text())
    statuses = [200, 503]

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop(0) if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as service:
        Thread(target=service.serve_forever, daemon=True).start()
        port = str(service.server_port)
        up, not_up = (run_in(ROOT, "-c", code, PORT=port, http_proxy="http://x/") for _ in "12")
        service.shutdown()
    assert (up.returncode, not_up.returncode, not_up.stderr) == (0, 1, "")
    assert run_in(ROOT, "-c", code, PORT="1").returncode == 1  # a port without a listener


def test_gunicorn_fits_what_runs_it_and_what_is_in_front_of_it(production_copy: Path) -> None:
    command = ("-m", "gunicorn", "--print-config", "-c", "project/gunicorn.py")
    ended = run_in(production_copy, *command, WORKERS="3")
    shown = dict(re.findall(r"^(\w+) += (.*)$", ended.stdout, re.MULTILINE))
    expected = {
        "workers": "3",
        "http_parser": "fast",  # the other one keeps in memory all that a client sends
        "asgi_disconnect_grace_period": "0",
        "timeout": "30",  # as docs/deploying.md says
        "control_socket_disable": "True",  # it would be in a home, which systemd hides
    }
    assert expected.items() <= shown.items()
    # A request on a connection that gunicorn just closes is a 502, or is sent and counted again.
    document = (ROOT / "docs" / "deploying.md").read_text()
    (of_nginx,) = re.findall(r"keepalive_timeout (\d+)s;", document)
    assert int(of_nginx) < int(shown["keepalive"])
    # Whoever stops gunicorn lets it finish the requests in flight.
    (of_systemd,) = re.findall(r"TimeoutStopSec=(\d+)", read_deployed("shorturl@.service"))
    of_compose = BASE["web"]["stop_grace_period"].removesuffix("s")
    assert min(int(of_systemd), int(of_compose)) > int(shown["graceful_timeout"])


@pytest.fixture
def run_make(tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    """Return a function that runs make beside a wheel with one module, with settings of pip."""
    if subprocess.run(["python3", "-m", "pip", "--version"], check=False).returncode:
        pytest.skip("python3 has no pip")
    wheel = tmp_path / "own-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as file:
        file.writestr("own.py", "")
        file.writestr("own-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr("own-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1\n")
        file.writestr("own-1.dist-info/RECORD", "own.py,,\n")
    (tmp_path / "requirements").mkdir()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "requirements" / "local.txt").write_text(f"own==1 --hash=sha256:{digest}\n")
    (tmp_path / "requirements" / "parser.txt").touch()
    shutil.copy(ROOT / "Makefile", tmp_path)

    def run_make(*arguments: str, **settings: str) -> CompletedProcess[str]:
        for setting, value in settings.items():  # in the file, or in the environment
            (tmp_path / "pip.conf").write_text(f"[install]\n{setting} = {value}\n")
        local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ".", "PIP_CONFIG_FILE": "pip.conf"}
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **local, **settings}
        return subprocess.run(
            ["make", *arguments], check=False, cwd=tmp_path, env=environment,
            capture_output=True, text=True,
        )  # fmt: skip

    return run_make


def test_make_installs_into_venv_whatever_pip_is_set_to(
    tmp_path: Path, run_make: Callable[..., CompletedProcess[str]]
) -> None:
    """Otherwise user is an error of pip, and with the others the service finds no package."""
    rule = "own: ; @$(PYTHON) -m venv --without-pip .venv && $(PIP_INSTALL) own"
    ended = run_make("--eval", rule, "own", PIP_USER="1", PIP_TARGET="x", PIP_PREFIX="x")
    assert ended.returncode == 0, ended.stderr
    assert [*tmp_path.glob(".venv/lib/python3*/site-packages/own.py")]


def test_make_says_what_to_unset_if_pip_installs_elsewhere(
    run_make: Callable[..., CompletedProcess[str]],
) -> None:
    ended = run_make(".venv/installed-to-run", prefix="elsewhere")
    assert ended.returncode
    assert "unset prefix in pip.conf" in ended.stdout


def test_make_run_is_a_local_run_that_delivers_unless_the_operator_says_otherwise(
    tmp_path: Path, run_make: Callable[..., CompletedProcess[str]]
) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$SHORTURL_LOCAL, $SHORTURL_DELIVER, $SERVED_AT: $@"\n')
    python.chmod(0o755)
    (tmp_path / ".venv" / "installed-to-run").touch()
    gunicorn = ".local/served-at: -m gunicorn -c project/gunicorn.py\n"
    assert run_make("run").stdout == f"on, on, {gunicorn}"
    (tmp_path / ".env").write_text("SHORTURL_LOCAL=off\n")
    assert run_make("run", SHORTURL_DELIVER="off").stdout == f", off, {gunicorn}"


# What a container waits for. A migration ends; the others are healthy.
NEEDED = [
    {"proxy": {"web"}, "web": {"db", "migrate"}, "migrate": {"db"}, "timer": {"migrate"}},
    {"web": {"pgbouncer"}, "pgbouncer": {"db"}},
]


def test_compose_starts_a_container_after_what_it_needs_and_starts_it_again() -> None:
    for services, needed in zip((BASE, SCALED), NEEDED, strict=True):
        waits = {name: service.get("depends_on", {}) for name, service in services.items()}
        assert {name: {*others} for name, others in waits.items() if others} == needed
        for other, dependency in chain.from_iterable(others.items() for others in waits.values()):
            end = "completed_successfully" if other == "migrate" else "healthy"
            assert dependency["condition"] == f"service_{end}"
    for name, service in {**SCALED, **BASE}.items():
        assert service["restart"] == ("no" if name == "migrate" else "unless-stopped")
        assert service["security_opt"] == ["no-new-privileges:true"]
        if name != "db":  # whose image writes, and changes its account
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])


def test_compose_and_systemd_start_the_service_and_its_tidy() -> None:
    units = [read_deployed(f"shorturl{name}@.service") for name in ("", "-tidy")]
    started = [re.findall(r"(?m)^ExecStart=/srv/%i/.venv/bin/(.+)", unit) for unit in units]
    gunicorn, tidy = "gunicorn -c project/gunicorn.py", "python manage.py tidy"
    assert started == [[gunicorn], [tidy]]
    assert f"CMD {json.dumps(gunicorn.split())}" in (ROOT / "Dockerfile").read_text()
    assert f"timeout 1800 {tidy}\n" in BASE["timer"]["command"][-1]
    for unit in units:
        assert {"User=shorturl", "WorkingDirectory=/srv/%i"} <= {*unit.splitlines()}


def test_compose_sets_what_the_service_reads_as_its_other_containers_expect(load: Load) -> None:
    own = {"SHORTURL_LOCAL": "on", "HOST": "x", "PORT": "1", "DATABASE_URL": "postgres://x/x"}
    scaled = {**BASE["web"]["environment"], **SCALED["web"]["environment"]}
    web, migrate, two_machines = (
        load(**{**PRODUCTION, **own, **environment})
        for environment in (BASE["web"]["environment"], BASE["migrate"]["environment"], scaled)
    )
    password = "${POSTGRES_PASSWORD:?set it in .env, made as .env.example says}"
    assert scaled.keys() | BASE["migrate"]["environment"].keys() <= variables | {"PGPASSWORD"}
    assert scaled["PGPASSWORD"] == BASE["db"]["environment"]["POSTGRES_PASSWORD"] == password
    assert (web["LOCAL"], web["BEHIND_PROXY"], web["HOST"]) == (False, True, "0.0.0.0")
    assert (web["DATABASE_STATEMENT_TIMEOUT"], migrate["DATABASE_STATEMENT_TIMEOUT"]) == (10, 0)
    assert (web["DATABASE_POOLER"], two_machines["DATABASE_POOLER"]) == ("none", "transaction")
    pgbouncer = read_deployed("pgbouncer.ini")
    for settings, host, port in ((web, "db", 5432), (two_machines, "pgbouncer", 6432)):
        database = settings["DATABASES"]["default"]
        assert (database["HOST"], database["PORT"], database["USER"]) == (host, port, "shorturl")
        assert str(port) in pgbouncer
    for limit, value in re.findall(r"SET (\w+) = ''(\w+)''", pgbouncer):
        assert f"-c {limit}={value}" in web["DATABASES"]["default"]["OPTIONS"]["options"]
    haproxy = read_deployed("haproxy.cfg")
    assert {*re.findall(r" web:(\d+)", haproxy)} == {str(web["PORT"])}
    assert "httpchk GET /readyz" in haproxy


@pytest.mark.parametrize("path", COMPOSE_FILES, ids=lambda path: path.name)
def test_compose_publishes_only_the_proxy_and_has_no_default_for_a_secret(path: Path) -> None:
    """A variable without `:?` and a message would be empty, and Compose would only warn."""
    text = path.read_text()
    services = yaml.safe_load(text)["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published in ({}, {"proxy": ["${HOST:-127.0.0.1}:${PORT:-8000}:8000"]})
    defaults = re.findall(r"\$\{(?:SECRET_KEY|\w*PASSWORD)([^}]*)\}", text)
    assert defaults
    assert all(default.startswith(":?") for default in defaults)


def test_compose_shows_the_service_the_operators_files_and_the_restore_makes_its_database() -> None:
    """A container sees nothing else of the machine, and pg_restore needs an empty database."""
    document = (ROOT / "docs" / "deploying.md").read_text()
    of_service = yaml.safe_load(COMPOSE_FILES[0].read_text())["x-service"]
    assert of_service["volumes"] == ["./files:/files:ro"]
    assert "SHORTURL_LOGO=/files/" in document
    restore = document.split("## Backups and restore")[1].split("\n## ")[0]
    programs = re.findall(r"dropdb|createdb|pg_restore|pg_dump", restore)
    assert programs == ["pg_dump", "dropdb", "createdb", "pg_restore"] * 2
