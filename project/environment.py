"""How the settings read the environment, with django-environ.

A wrong value raises an ImproperlyConfigured that names the variable and an example.
"""

import os
import re
import secrets
from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import psycopg2
from django.core.exceptions import ImproperlyConfigured, ValidationError
from environ import Env
from psycopg2.extensions import make_dsn

from shorturl.links.validators import Address, parse

LOOPBACK = "127.0.0.1,localhost,[::1]"
SECRET_KEY_LENGTH = 50  # `check --deploy` requires this, and 5 different characters
MAX_SECONDS = 24 * 60 * 60
# A host in Django's syntax: a name, with a leading dot for all its subdomains, or an address.
HOST = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)
ENV_LINE = re.compile(r"#|$|(export )?\w+=")
SWITCHES = ("on", "true", "yes", "1", "off", "false", "no", "0")
EXAMPLES = {
    "ALLOWED_HOSTS": "example.com,www.example.com",
    "DATABASE_URL": "postgres://user:password@host:5432/shorturl",
    "EMAIL_URL": "smtp+tls://user:password@mail.example.com:587",
    "SECRET_KEY": "OUTPUT, with the output of python3 -c '"
    "import secrets; print(secrets.token_urlsafe(50))'",
    "SHORTURL_METRICS_TOKEN": "OUTPUT, with the output of python3 -c '"
    "import secrets; print(secrets.token_urlsafe())'",
    "SHORTURL_FOOTER_LINKS": "Imprint=https://example.com/imprint,Abuse=mailto:abuse@example.com",
    "SHORTURL_HOME_REDIRECT": "https://example.com/page",
}
ENCODED = "percent-encode all but letters and digits in the password"
# A % that encodes no character; a / in the password, after which the host would be a name.
NOT_ENCODED = re.compile(r"%(?![0-9a-fA-F]{2})|//[^/]*/[^?]*@")
# Options of a URL by which Django's transactions begin and end. A redirect has none of Django's.
DJANGO_ALONE = {"ATOMIC_REQUESTS", "AUTOCOMMIT"}
INSTEAD = (
    "only those of libpq; a role is options=-c%20role%3DNAME, a PgBouncer is "
    "DATABASE_POOLER=transaction"
)

# The default port of each scheme of EMAIL_URL, and whether TLS begins after STARTTLS or at once.
MAIL_SCHEMES: dict[str, tuple[int, dict[str, bool]]] = {
    "smtp+tls": (587, {"EMAIL_USE_TLS": True}),
    "smtp+ssl": (465, {"EMAIL_USE_SSL": True}),
    "smtps": (465, {"EMAIL_USE_SSL": True}),
    "smtp": (25, {}),
}

# The names of all variables that are read. A check warns of a SHORTURL_ variable that is none.
variables: set[str] = set()


def setting_error(name: str, problem: str, example: object = None) -> ImproperlyConfigured:
    """Return the error of a variable: the problem, and an example of a right value."""
    example = EXAMPLES[name] if example is None else example
    return ImproperlyConfigured(f"{name}{problem}, for example {name}={example}")


def read_env_file(path: Path) -> None:
    """Set the variables of a file, if it exists, that the environment does not have.

    Raises ImproperlyConfigured for a line that cannot be read, which django-environ would ignore.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines() if path.exists() else []
    except (OSError, UnicodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not ENV_LINE.match(line.strip()):  # the line may be a secret, and is not shown
            raise ImproperlyConfigured(f"{path}: line {number} is neither NAME=value nor # comment")
    Env.read_env(StringIO("\n".join(map(str.strip, lines))))


def read_text(name: str, *, default: str = "") -> str:
    """Return the variable `name`, or `default` when it is unset or empty."""
    variables.add(name)
    return os.environ.get(name, "").strip() or default


def read_required(name: str) -> str:
    """Return the variable `name`; raise ImproperlyConfigured if it is unset or empty."""
    if value := read_text(name):
        return value
    raise setting_error(
        name, " is not set, and a production needs it (a local run: SHORTURL_LOCAL=on)"
    )


def read_flag(name: str, *, default: bool) -> bool:
    """Return the on/off variable `name`; raise ImproperlyConfigured for anything else."""
    value = read_text(name, default="on" if default else "off")
    if value.lower() not in SWITCHES:  # django-environ takes an unknown word for off
        raise setting_error(name, f"={value!r} is neither on nor off", "on")
    return bool(Env.parse_value(value, bool))


def read_number(name: str, *, default: int, minimum: int = 0, maximum: int = MAX_SECONDS) -> int:
    """Return the whole number `name`; raise ImproperlyConfigured outside of its limits."""
    value = read_text(name, default=str(default))
    with suppress(ValueError):
        number = int(Env.parse_value(value, int))
        if minimum <= number <= maximum:
            return number
    problem = f"={value[:20]!r} is not a whole number from {minimum} to {maximum}"
    raise setting_error(name, problem, default)


def read_url(name: str) -> str:
    """Return the web address `name`, as browsers read it, or ""; raise ImproperlyConfigured."""
    value = read_text(name)
    return parse_url(name, value).href if value else ""


def read_named_urls(name: str) -> dict[str, str]:
    """Return the list TEXT=URL of the variable `name` as a dict; raise ImproperlyConfigured."""
    try:
        parsed: dict[str, str] = Env.parse_value(read_text(name), dict)
    except ValueError as error:
        raise setting_error(name, " is not a list of TEXT=URL") from error
    for value in parsed.values():
        if not value.startswith("mailto:"):
            parse_url(name, value)
    return parsed


def parse_url(name: str, value: str) -> Address:
    """Return a web address as browsers read it; raise ImproperlyConfigured about `name`."""
    try:
        return parse(value)
    except ValidationError as error:
        problem = f" has {value!r}, which is not a URL with https: or http:"
        raise setting_error(name, problem) from error


def read_hosts(name: str, *, local: bool) -> list[str]:
    """Return a list of hosts; raise ImproperlyConfigured for an invalid one.

    A local run has a default, and may have *. In a production * is dangerous: pages show short URLs
    under the host that the client has named.
    """
    value = read_text(name, default=LOOPBACK) if local else read_required(name)
    names = [host.strip() for host in value.split(",")]
    for host in names:
        if not HOST.fullmatch(host) and not (local and host == "*"):
            raise setting_error(
                name, f" has {host!r}, which is not a host without scheme, port and path"
            )
    return names


def refuse_path_prefix() -> None:
    """Raise ImproperlyConfigured for a variable that asks for a path in front of the service.

    a2wsgi reads SCRIPT_NAME, so Django's links would have the path, and redirects would not.
    FORCE_SCRIPT_NAME is a setting of Django's, which no variable sets here.
    """
    for name in ("FORCE_SCRIPT_NAME", "SCRIPT_NAME"):
        if os.environ.get(name, "").strip("/ "):
            raise ImproperlyConfigured(
                f"{name} is set, and the service has no path prefix, because each character of a "
                "short URL counts: give it a host name of its own, and unset the variable"
            )


def read_served_port(path: Path) -> str:
    """Return the port that the running `make run` has written; "" if none is running."""
    with suppress(OSError):
        return path.read_text().strip()
    return ""


def check_secret(name: str, value: str, *, length: int) -> None:
    """Raise ImproperlyConfigured for a secret that is easy to guess.

    It is short, or repeats a few characters, or it is the command of the example, which everybody
    can read.
    """
    if value.startswith("$(") or "token_urlsafe" in value:  # nothing expands a line of .env
        raise setting_error(name, " is a command: run the command and paste its output")
    if len(value) < length or len(set(value)) < 5:
        raise setting_error(name, f" is too easy to guess: use {length} random characters or more")


def read_local_secret_key(path: Path) -> str:
    """Return the random key in a file, which the first call makes; raise ImproperlyConfigured."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            with NamedTemporaryFile("w", dir=path.parent) as file:  # for its owner alone
                file.write(secrets.token_urlsafe(SECRET_KEY_LENGTH))
                file.flush()
                # Another process that starts now never reads half a key.
                with suppress(FileExistsError):
                    os.link(file.name, path)
        return path.read_text()
    except OSError as error:
        raise setting_error(
            "SECRET_KEY", f" cannot be stored in a file: {error}. Set it"
        ) from error


def parse_database_url(name: str, url: str) -> dict[str, Any]:
    """Return Django's configuration of the database at `url`; raise ImproperlyConfigured."""
    config: dict[str, Any] = {}
    if url.startswith(("postgres://", "postgresql://")) and not NOT_ENCODED.search(url):
        with suppress(ValueError):  # a bad port; the error's text may contain part of the password
            config = Env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    # `manage.py dbshell` looks for these outside of OPTIONS.
    for option in {"host", "port", "user", "password"} & set(options):
        config[option.upper()] = options.pop(option)
    if not config.get("NAME") and not options.get("service"):
        raise setting_error(name, f" is not the address of a PostgreSQL database ({ENCODED})")
    if not isinstance(config.get("CONN_MAX_AGE", 0), int):
        raise setting_error(name, " has a conn_max_age that is not a whole number of seconds")
    for option in [*sorted(DJANGO_ALONE & set(config)), *options]:
        if option in DJANGO_ALONE or not is_option_of_libpq(option):
            raise setting_error(
                name, f" has the option {option.lower()}, which redirects cannot take ({INSTEAD})"
            )
    return config


def is_option_of_libpq(option: str) -> bool:
    """Return whether libpq knows an option of a connection, and not Django or psycopg2 alone."""
    try:
        make_dsn(**{option: ""})
    except psycopg2.ProgrammingError:
        return False
    return True


def parse_email_url(name: str, url: str) -> dict[str, Any]:
    """Return Django's e-mail settings for `url`, which may be empty; raise ImproperlyConfigured."""
    config: dict[str, Any] = {}
    with suppress(ValueError, ImproperlyConfigured):  # a bad port, another scheme
        config = Env.email_url_config(url or "dummymail://")
    if url in ("", "consolemail://"):
        return config
    scheme, _, address = url.partition("://")
    if not config.get("EMAIL_HOST") or scheme not in MAIL_SCHEMES or "?" in address:
        schemes = ", ".join(f"{scheme}://" for scheme in MAIL_SCHEMES)
        problem = f" is not the address of a mail server: {schemes}, and no options ({ENCODED})"
        raise setting_error(name, problem)
    default_port, security = MAIL_SCHEMES[scheme]
    # django-environ takes smtps:// for STARTTLS, and has no ports.
    of_scheme = {"EMAIL_USE_TLS": False, "EMAIL_USE_SSL": False, **security}
    return config | of_scheme | {"EMAIL_PORT": config["EMAIL_PORT"] or default_port}
