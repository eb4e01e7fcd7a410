"""Settings: the effect of each variable, and the message for a wrong one."""

import re
import secrets
import stat
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from pytest_django import Settings

from conftest import LONG_WAITS
from project.environment import EXAMPLES, read_local_secret_key, variables
from project.tests.conftest import PRODUCTION, ROOT, Load, run_in

HOSTS = ["example.com", "www.example.com", ".example.org", "127.0.0.1", "[::1]"]
DOLLAR = "$HOME" + "0123456789" * 5  # it is not expanded
HOME = PRODUCTION | {"SHORTURL_HOME_REDIRECT": "HTTPS://Example.com/about"}
OTHER_PORT = PRODUCTION | {"SHORTURL_HOME_REDIRECT": "https://example.com:8443"}
MAIL = {"EMAIL_URL": "smtp+tls://me%40example.org:p%40ss@mail.example.com:587"}
FOOTER_LINKS = {"Imprint": "https://a.example/?b=c", "Abuse": "mailto:a@b.c"}
PROXY_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SUBDOMAINS = PRODUCTION | {"ALLOWED_HOSTS": ".example.com", "HTTPS": "off"}
PLAIN_MAIL = {"EMAIL_URL": "smtp://mail.example.com"}
BY_HTTPS = ("SECURE_SSL_REDIRECT", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE")
OPEN_TO_ALL = ("SHORTURL_PUBLIC_CREATE", "SHORTURL_PUBLIC_STATS")
QUOTAS = ("SHORTURL_LINKS_PER_DAY", "SHORTURL_PUBLIC_LINKS_PER_DAY")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        # A local run needs no variable, and is for this machine alone.
        ({}, {"LOCAL": True, "DEBUG": False, "ALLOWED_HOSTS": ["127.0.0.1", "localhost", "[::1]"]}),
        ({}, {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}),
        ({}, {"SHORTURL_ORIGIN": "http://127.0.0.1:8000", "SHORTURL_LAB": True}),
        ({}, dict.fromkeys(OPEN_TO_ALL, True) | dict.fromkeys(QUOTAS, 0)),
        ({"SECRET_KEY": "own"}, {"SECRET_KEY": "own"}),
        ({"ALLOWED_HOSTS": "*"}, {"SHORTURL_ORIGIN": "http://localhost:8000"}),
        # By plain HTTP a browser sends no secure cookie, and no header may forbid it.
        *(
            (variables, {"SECURE_HSTS_SECONDS": 0, **dict.fromkeys(BY_HTTPS, False)})
            for variables in ({}, SUBDOMAINS)
        ),
        *(
            (variables, {"SECURE_HSTS_SECONDS": 31_536_000, **dict.fromkeys(BY_HTTPS, True)})
            for variables in ({"HTTPS": "on"}, PRODUCTION)
        ),
        (SUBDOMAINS, {"SHORTURL_ORIGIN": "http://example.com"}),
        ({}, {"AXES_FAILURE_LIMIT": 5, "AXES_COOLOFF_TIME": timedelta(minutes=5)}),  # as documented
        ({}, {"PASSWORD_HASHERS": ["project.accounts.login.LimitedHasher"]}),
        # A production is closed, and by HTTPS.
        (PRODUCTION, dict.fromkeys(["LOCAL", "DEBUG", "SHORTURL_LAB"], False)),
        (PRODUCTION, {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}),
        (PRODUCTION, {**dict.fromkeys(OPEN_TO_ALL, False), "EMAIL_URL": ""}),
        (PRODUCTION, {"SHORTURL_ORIGIN": "https://example.com", "SECURE_PROXY_SSL_HEADER": None}),
        (PRODUCTION | {"SECRET_KEY": DOLLAR[:50]}, {"SECRET_KEY": DOLLAR[:50]}),
        ({"SHORTURL_METRICS_TOKEN": "01234" * 4}, {"SHORTURL_METRICS_TOKEN": "01234" * 4}),
        ({"SHORTURL_NAME": "x" * 40}, {"SHORTURL_NAME": "x" * 40}),
        (PRODUCTION | {"ALLOWED_HOSTS": ", ".join(HOSTS)}, {"ALLOWED_HOSTS": HOSTS}),
        (PRODUCTION | {"BEHIND_PROXY": "on"}, {"SECURE_PROXY_SSL_HEADER": PROXY_HEADER}),
        (PRODUCTION | MAIL, {"EMAIL_HOST": "mail.example.com", "EMAIL_PORT": 587}),
        (PRODUCTION | MAIL, {"EMAIL_HOST_USER": "me@example.org", "EMAIL_HOST_PASSWORD": "p@ss"}),
        (PRODUCTION | MAIL, {"EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend"}),
        (PRODUCTION | MAIL, {"DEFAULT_FROM_EMAIL": "me@example.org", "EMAIL_TIMEOUT": 10}),
        *(
            (PRODUCTION | {"EMAIL_URL": f"{scheme}://mail.example.com{written}"}, expected)
            for scheme, port, tls, ssl in [
                ("smtp", 25, False, False),
                ("smtp+tls", 587, True, False),
                ("smtp+ssl", 465, False, True),
                ("smtps", 465, False, True),
            ]
            for written, expected in {
                "": {"EMAIL_PORT": port, "EMAIL_USE_TLS": tls, "EMAIL_USE_SSL": ssl},
                ":2525": {"EMAIL_PORT": 2525, "EMAIL_USE_TLS": tls, "EMAIL_USE_SSL": ssl},
            }.items()
        ),
        (PRODUCTION | PLAIN_MAIL, {"EMAIL_PORT": 25, "DEFAULT_FROM_EMAIL": "shorturl@example.com"}),
        (
            {"SHORTURL_FOOTER_LINKS": "Imprint=https://a.example/?b=c,Abuse=mailto:a@b.c"},
            {"SHORTURL_FOOTER_LINKS": FOOTER_LINKS},
        ),
        (HOME, {"SHORTURL_HOME_REDIRECT": "https://example.com/about"}),
        (HOME, {"LOGOUT_REDIRECT_URL": "login"}),  # no form ends at another site
        (OTHER_PORT, {"SHORTURL_HOME_REDIRECT": "https://example.com:8443/"}),
        # A request may wait longer than a statement may take.
        ({}, {"DATABASE_REQUEST_TIMEOUT": 12, "QUEUE_TIMEOUT": 0.5}),
        ({"DATABASE_STATEMENT_TIMEOUT": "0"}, {"DATABASE_REQUEST_TIMEOUT": 0}),
    ],
)
def test_variables_and_defaults_become_these_settings(
    load: Load, variables: dict[str, str], expected: dict[str, Any]
) -> None:
    settings = load(**variables)
    assert {name: settings.get(name) for name in expected} == expected


def test_a_production_with_the_lab_has_no_table_for_a_room(load: Load) -> None:
    apps = load(**PRODUCTION, SHORTURL_LAB="on")["INSTALLED_APPS"]
    assert "lab.apps.LabConfig" in apps
    assert "lab.room" not in apps


LIMITS = {
    "PORT": (0, 65_535),
    "WORKERS": (1, 64),
    "THREADS": (1, 64),
    "QUEUE_TIMEOUT_MS": (10, 60_000),
    "DATABASE_STATEMENT_TIMEOUT": (0, 86_400),
    "SHORTURL_KEY_LENGTH": (1, 20),
    **dict.fromkeys(QUOTAS, (0, 1_000_000_000)),
}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("SECRET_KEY", "", "is not set"),
        ("SECRET_KEY", "abcd" * 20, "is too easy to guess"),
        ("SECRET_KEY", DOLLAR[:49], "is too easy to guess: use 50 random characters or more"),
        ("SECRET_KEY", f"$(openssl rand {DOLLAR})", "run the command and paste its output"),
        ("SHORTURL_METRICS_TOKEN", EXAMPLES["SHORTURL_METRICS_TOKEN"], "is a command: run"),
        ("ALLOWED_HOSTS", "  ", "is not set"),
        ("ALLOWED_HOSTS", "https://example.com", "has 'https://example.com', which is not a host"),
        ("ALLOWED_HOSTS", "example.com/go", "has 'example.com/go', which is not a host without"),
        ("ALLOWED_HOSTS", "*", r"has '\*', which"),
        ("DEBUG", "on", "must be off: its error pages show the settings"),
        ("DATABASE_URL", "", "is not set"),
        ("DATABASE_URL", "sqlite:///shorturl", "is not the address of a PostgreSQL"),
        ("DATABASE_URL", "postgres://user@host:99999/shorturl", "is not the address"),
        ("DATABASE_URL", "postgres://user:1/2@host/shorturl", "percent-encode all but letters"),
        ("DATABASE_URL", "postgres://user:100%@host/shorturl", "percent-encode all but letters"),
        *(
            ("DATABASE_URL", f"postgres://host/links?sslmode=require&{option}", f"option {name}, ")
            for name, option in {
                "assume_role": "assume_role=owner",
                "isolation_level": "isolation_level=3",
                "pgbouncer": "pgbouncer=true",
                "pool": "pool=true",
                "cursor_factory": "cursor_factory=x",
                "atomic_requests": "atomic_requests=true",
                "autocommit": "autocommit=false",
            }.items()
        ),
        ("DATABASE_URL", "postgres://host/links?sslmod=require", "has the option sslmod, which"),
        ("DATABASE_URL", "postgres://host/links?conn_max_age=x", "conn_max_age that is not a"),
        ("DATABASE_CITUS_NODES", "worker-1:5432,worker-2", "lists HOST:PORT"),
        ("DATABASE_POOLER", "session", "='session' is not none or transaction"),
        ("EMAIL_URL", "smtp://host:port", "is not the address of a mail server"),
        ("EMAIL_URL", "filemail://host/mails", r": smtp\+tls://, smtp\+ssl://, smtps://"),
        ("EMAIL_URL", "smtp://host?ssl=true", "is not the address of .* and no options"),
        ("SHORTURL_METRICS_TOKEN", DOLLAR[:19], "is too easy to guess: use 20 random characters"),
        ("SHORTURL_NAME", "x" * 41, "is longer than 40 characters"),
        ("SHORTURL_HOME_REDIRECT", "example.com", "'example.com', which is not a URL with https:"),
        ("SHORTURL_HOME_REDIRECT", "https://example.com/", "is the page that redirects there"),
        ("SHORTURL_HOME_REDIRECT", "HTTPS://Example.COM:443?a", "is the page that redirects there"),
        ("SHORTURL_HOME_REDIRECT", "http://example.com.", "is the page that redirects there"),
        ("SHORTURL_FOOTER_LINKS", "https://example.com/", "is not a list of TEXT=URL"),
        ("SHORTURL_FOOTER_LINKS", "Abuse=javascript:x", "is not a URL with https: or http:"),
        *(
            (name, str(value), f"='{value}' is not a whole number from {least} to {greatest},")
            for name, (least, greatest) in LIMITS.items()
            for value in (least - 1, greatest + 1)
        ),
        ("SHORTURL_KEY_LENGTH", "7" * 5000, "is not"),  # more digits than int() takes
    ],
)
def test_a_wrong_value_is_refused_by_name_with_an_example(
    load: Load, name: str, value: str, problem: str
) -> None:
    message = rf"^{name}\b.*{problem}.* for example {name}=\S+"
    with pytest.raises(ImproperlyConfigured, match=message):
        load(**{**PRODUCTION, "SHORTURL_LOCAL": "off", name: value})


def test_the_first_page_of_a_local_run_does_not_redirect_to_itself(load: Load) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        with pytest.raises(ImproperlyConfigured, match="is the page that redirects there"):
            load(SHORTURL_HOME_REDIRECT=f"http://{host}:8000/")
    load(SHORTURL_HOME_REDIRECT="http://localhost:9000/")


def test_maybe_is_refused_as_a_switch_and_as_a_number(load: Load) -> None:
    for name, variable in read_example().items():
        if re.fullmatch(r"on|off|\d+", variable.value):  # as .env.example shows it
            with pytest.raises(ImproperlyConfigured, match=rf"^{name}='maybe' is .*{name}=\S+"):
                load(**{**PRODUCTION, name: "maybe"})


def test_each_switch_and_number_changes_the_setting_of_its_name(load: Load) -> None:
    for name, variable in read_example().items():
        if re.fullmatch(r"on|off", variable.value):
            for switch in ("on", "TRUE", "yes", "1", "off", "False", "no", "0"):
                is_on = switch in ("on", "TRUE", "yes", "1")
                settings = load(**{**PRODUCTION, "SHORTURL_LOCAL": "on", name: switch})
                assert settings[name.replace("SHORTURL_LOCAL", "LOCAL")] is is_on, (name, switch)
        elif variable.value.isdecimal():
            setting, unit = ("QUEUE_TIMEOUT", 1000) if name == "QUEUE_TIMEOUT_MS" else (name, 1)
            for limit in LIMITS[name]:
                assert load(**PRODUCTION, **{name: str(limit)})[setting] == limit / unit, name


def list_hints() -> dict[str | None, str | None]:
    """Return the hints of the project's checks, by id."""
    messages = run_checks(include_deployment_checks=True)
    return {message.id: message.hint for message in messages if "project." in str(message.id)}


def test_a_misspelt_name_is_a_warning_with_the_nearest_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHORTURL_VISIT", "on")
    assert list_hints() == {"project.W001": "The nearest one is SHORTURL_VISITS."}


ELSEWHERE = {"EMAIL_HOST": "mail.example.com"}


@pytest.mark.parametrize(
    ("changed", "hints"),  # a part of each, by id
    [
        ({"HTTPS": True, "BEHIND_PROXY": False}, {"project.W004": "Set BEHIND_PROXY=on if"}),
        ({"HTTPS": True, "BEHIND_PROXY": True}, {}),
        ({"HTTPS": False, "BEHIND_PROXY": False}, {}),
        (ELSEWHERE, {"project.W005": "Use smtp+tls://"}),
        *((ELSEWHERE | {way: True}, {}) for way in ("EMAIL_USE_TLS", "EMAIL_USE_SSL")),
        ({"EMAIL_HOST": "localhost"}, {}),
    ],
)
def test_https_or_mail_that_fails_in_use_is_a_warning(
    settings: Settings, changed: dict[str, Any], hints: dict[str, str]
) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    found = list_hints()
    assert found.keys() == hints.keys()
    assert all(part in str(found[name]) for name, part in hints.items())


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "FORCE_SCRIPT_NAME"])
def test_a_path_prefix_is_refused_by_name(load: Load, name: str) -> None:
    load(**PRODUCTION, **{name: "/"})
    with pytest.raises(ImproperlyConfigured, match=rf"^{name} is set, .*no path prefix"):
        load(**PRODUCTION, **{name: "/links"})


def test_links_of_a_command_name_the_port_of_the_running_make_run(
    load: Load, tmp_path: Path
) -> None:
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "served-at").write_text("8123\n")
    assert load()["SHORTURL_ORIGIN"] == "http://127.0.0.1:8123"
    assert load(**PRODUCTION)["SHORTURL_ORIGIN"] == "https://example.com"


def test_a_production_without_a_database_is_no_local_run(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without variables the service runs locally, with the PostgreSQL of its packages."""
    # As in a production, whose packages have no PostgreSQL.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL is not set.*no PostgreSQL"):
        load()


def test_no_message_holds_the_password(load: Load) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL") as raised:
        load(**{**PRODUCTION, "DATABASE_URL": "postgres://user:s3cret/word@host/shorturl"})
    error: BaseException | None = raised.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__


@pytest.mark.parametrize(
    ("url", "expected", "options"),
    [
        (
            "postgresql://user:p%40ss%2Fword@example.com:5433/shorturl",
            {"USER": "user", "PASSWORD": "p@ss/word", "HOST": "example.com", "PORT": 5433},
            {"connect_timeout": 3},
        ),
        (
            "postgres:///shorturl?host=/tmp&port=5433&user=me&password=x",
            {"HOST": "/tmp", "PORT": 5433, "USER": "me", "PASSWORD": "x"},
            {},
        ),
        ("postgres://?service=links", {"NAME": ""}, {"service": "links"}),
        ("postgres://host/shorturl", {"CONN_MAX_AGE": 600}, {}),
        ("postgres://host/shorturl?conn_max_age=60", {"CONN_MAX_AGE": 60}, {}),
        (
            "postgres://host/shorturl?sslmode=verify-full&connect_timeout=7&sslcert=own.crt",
            {"HOST": "host"},
            {"sslmode": "verify-full", "connect_timeout": 7, "sslcert": "own.crt"},
        ),
    ],
)
def test_database_url_becomes_the_connection_and_its_options(
    load: Load, url: str, expected: dict[str, Any], options: dict[str, Any]
) -> None:
    config = load(**{**PRODUCTION, "DATABASE_URL": url})["DATABASES"]["default"]
    expected = {"ENGINE": "django.db.backends.postgresql", "NAME": "shorturl", **expected}
    assert expected.items() <= config.items()
    assert options.items() <= config["OPTIONS"].items()
    assert not {"host", "port", "user", "password"} & set(config["OPTIONS"])


def test_the_operators_session_options_come_after_those_of_the_service(load: Load) -> None:
    url = "postgres://host/shorturl?options=-c%20work_mem=8MB"
    variables = {**PRODUCTION, "DATABASE_URL": url, "PGOPTIONS": "-c lock_timeout=9s"}
    options = load(**variables)["DATABASES"]["default"]["OPTIONS"]["options"]
    assert re.search(r"lock_timeout=500ms .*-c lock_timeout=9s -c work_mem=8MB$", options)
    # A pooler gets no options but those of the URL.
    pooled = load(**variables, DATABASE_POOLER="transaction")["DATABASES"]["default"]
    assert pooled["OPTIONS"]["options"] == "-c work_mem=8MB"
    assert pooled["DISABLE_SERVER_SIDE_CURSORS"]


def test_the_environment_wins_over_the_file_env_and_what_is_empty_is_unset(
    load: Load, tmp_path: Path
) -> None:
    text = "\ufeffSHORTURL_KEY_LENGTH=9\n  export THREADS=5\nWORKERS=4\nDEBUG=\n"
    (tmp_path / ".env").write_text(text)  # as an editor of Windows writes it
    settings = load(WORKERS="3")
    expected = {"SHORTURL_KEY_LENGTH": 9, "THREADS": 5, "WORKERS": 3, "DEBUG": False}
    assert expected.items() <= settings.items()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("DEBUG=on\n".encode("utf-16"), r"\.env cannot be read"),
        (b"# A comment\n\n  export DEBUG=on\nSECRET_KEY: abc\n", r"\.env: line 4 is neither"),
        (None, r"\.env cannot be read: .*directory"),  # that Docker makes without a mounted file
    ],
)
def test_an_env_that_cannot_be_read_stops_the_start(
    load: Load, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    (tmp_path / ".env").mkdir() if content is None else (tmp_path / ".env").write_bytes(content)
    with pytest.raises(ImproperlyConfigured, match=problem):
        load()


def test_a_local_run_makes_its_secret_key_once(load: Load, tmp_path: Path) -> None:
    key = load()["SECRET_KEY"]
    assert len(key) >= 50
    assert load()["SECRET_KEY"] == key
    (made,) = (tmp_path / ".local").iterdir()
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700


def test_two_local_runs_that_start_at_once_have_one_secret_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While the first run makes its key, the other one makes and stores the key of both."""
    path = tmp_path / ".local" / "secret-key"
    keys = []

    def start_another_run(length: int) -> str:
        monkeypatch.undo()
        keys.append(read_local_secret_key(path))
        return "a" * length

    monkeypatch.setattr(secrets, "token_urlsafe", start_another_run)
    keys.append(read_local_secret_key(path))
    assert keys == [path.read_text()] * 2
    assert len(keys[0]) >= 50


def test_without_a_place_for_its_secret_key_a_local_run_names_the_setting(
    load: Load, tmp_path: Path
) -> None:
    # A file where the directory is to be made stands for a checkout that cannot be written.
    (tmp_path / ".local").touch()
    with pytest.raises(ImproperlyConfigured, match=r"\.local.*for example SECRET_KEY="):
        load()


# --- .env.example --------------------------------------------------------------------------------


class Variable(NamedTuple):
    is_commented: bool
    value: str


def read_example() -> dict[str, Variable]:
    """Return the variables in .env.example, by name."""
    lines = re.findall(r"^(# )?([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    return {name: Variable(bool(comment), value) for comment, name, value in lines}


def test_env_example_lists_every_variable_and_no_other() -> None:
    files = [*ROOT.glob("*.yml"), *ROOT.glob("deploy/*.yml")]
    in_compose_files = re.findall(r"\$\{([A-Z_]+)", "".join(path.read_text() for path in files))
    all_variables = variables | {"POSTGRES_PASSWORD"}  # which only Compose reads
    assert set(in_compose_files) <= all_variables
    assert set(read_example()) == all_variables


def test_env_example_shows_the_defaults(load: Load) -> None:
    """Without the # in its lines, the settings are the same."""
    example = read_example().items()
    shown = {name: variable.value for name, variable in example if variable.is_commented}
    plain, explicit = load(**PRODUCTION), load(**PRODUCTION, **shown)
    for name in filter(str.isupper, plain):
        assert plain[name] == explicit[name], name


# --- In use --------------------------------------------------------------------------------------


def test_a_command_reports_a_wrong_setting_in_one_line(project_copy: Path) -> None:
    ended = run_in(project_copy, "manage.py", "migrate", **{**PRODUCTION, "DATABASE_URL": "wrong"})
    assert ended.returncode == 1
    assert re.fullmatch(r"\S+: DATABASE_URL\b.*for example DATABASE_URL=.*\n", ended.stderr)


def test_a_command_says_in_one_line_that_its_output_cannot_be_encoded(project_copy: Path) -> None:
    ended = run_in(project_copy, "manage.py", "race", "list", PYTHONIOENCODING="latin-1")
    assert ended.returncode == 1
    assert ended.stderr == (
        r"manage.py: the output has '\u2717', which latin-1 cannot write: set PYTHONUTF8=1" "\n"
    )


@pytest.mark.django_db
def test_a_session_has_the_time_limits_of_the_service() -> None:
    """On a Unix socket a keepalive always shows as 0, so reset_val is compared."""
    expected = {
        "application_name": "shorturl",
        "statement_timeout": "10000",
        "lock_timeout": "500",
        "idle_in_transaction_session_timeout": "10000",
        "client_connection_check_interval": "5000",
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
        "tcp_keepalives_count": "3",
    }
    session = connection.copy()
    options = session.settings_dict["OPTIONS"]
    without_those_of_tests = {**options, "options": options["options"].replace(LONG_WAITS, "")}
    session.settings_dict["OPTIONS"] = without_those_of_tests
    with closing(session), session.cursor() as cursor:
        cursor.execute(
            "SELECT name, reset_val FROM pg_settings WHERE name = ANY(%s)", [list(expected)]
        )
        assert dict(cursor.fetchall()) == expected
        parameters = session.connection.info.dsn_parameters
    of_the_socket = {"connect_timeout": "3", "tcp_user_timeout": "3000"}
    of_the_socket |= {"keepalives_idle": "3", "keepalives_interval": "3"}
    assert of_the_socket.items() <= parameters.items()
