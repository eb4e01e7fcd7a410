"""How the settings read the environment.

A wrong value raises an ImproperlyConfigured that names the variable and an example. django-environ
reads .env and parses DATABASE_URL. Its casts are not used: their errors name no variable, they take
a leading $ for the name of another variable, and an unknown word for off.
"""

import os
import re
import secrets
from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn

DAY = 24 * 60 * 60  # in seconds, the unit of most numbers
SECRET_KEY_LENGTH = 50  # `check --deploy` requires it, and 5 different characters
KEY_EXAMPLE = "$(python3 -c 'import secrets; print(secrets.token_urlsafe(50))')"
HOSTS_EXAMPLE = "example.com,www.example.com"
EMAIL_URL_EXAMPLE = "smtp+tls://user:password@mail.example.com:587"
DATABASE_URL_EXAMPLE = "postgres://user:password@host:5432/shorturl"
# A host in Django's syntax: a name, with a leading dot for all its subdomains, or an address.
HOST = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)
ENV_LINE = re.compile(r"#|$|(export )?\w+=")
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")

env = environ.Env()
READ: set[str] = set()  # the names of all variables


def invalid(name: str, problem: str, example: object) -> ImproperlyConfigured:
    """Return the error for the variable `name`: the problem and an example."""
    return ImproperlyConfigured(f"{name}{problem}, for example {name}={example}")


def read_env_file(path: Path) -> None:
    """Add the file's variables to the environment, which wins; the file may be missing.

    Raises ImproperlyConfigured when it or a line cannot be read. django-environ would ignore that.
    """
    try:
        content = path.read_text("utf-8-sig") if path.exists() else ""
    except (OSError, UnicodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error}") from error
    lines = [line.strip() for line in content.splitlines()]
    for number, line in enumerate(lines, 1):
        if not ENV_LINE.match(line):
            # The line may be a secret.
            raise ImproperlyConfigured(f"{path}: line {number} is neither NAME=value nor # comment")
    env.read_env(StringIO("\n".join(lines)))


def text(name: str, *, default: str = "") -> str:
    """Return the variable `name`, or `default` when it is unset or empty."""
    READ.add(name)
    return str(env.ENVIRON.get(name, "")).strip() or default


def flag(name: str, *, default: bool) -> bool:
    """Return the on/off variable `name`; raise ImproperlyConfigured for anything else."""
    value = text(name, default="on" if default else "off")
    if value.lower() not in ON + OFF:
        raise invalid(name, f"={value!r} is neither on nor off", "on")
    return value.lower() in ON


def number(name: str, *, default: int, least: int = 0, most: int = DAY) -> int:
    """Return the whole number `name`; raise ImproperlyConfigured outside `least` to `most`."""
    value = text(name, default=str(default))
    if not re.fullmatch("[0-9]{1,9}", value) or not least <= int(value) <= most:
        raise invalid(name, f"={value!r} is not a whole number from {least} to {most}", default)
    return int(value)


def choice(name: str, *, default: str, choices: tuple[str, ...]) -> str:
    """Return the variable `name`; raise ImproperlyConfigured unless it is one of `choices`."""
    value = text(name, default=default)
    if value not in choices:
        raise invalid(name, f"={value!r} is not one of {', '.join(choices)}", default)
    return value


def url(name: str, *, schemes: tuple[str, ...] = ("https", "http")) -> str:
    """Return the URL `name`, or ""; raise ImproperlyConfigured for another scheme or no address."""
    value = text(name)
    with suppress(ValueError):  # an invalid IPv6 address
        parts = urlsplit(value)
        address = parts.path if parts.scheme == "mailto" else parts.hostname
        if not value or (parts.scheme in schemes and address):
            return value
    listed = " or ".join(f"{scheme}:" for scheme in schemes)
    raise invalid(name, f"={value!r} is not a URL with {listed}", "https://example.com/page")


def required(name: str, example: str) -> str:
    """Return the variable `name`; raise ImproperlyConfigured if it is not set."""
    if value := text(name):
        return value
    problem = " is not set, and a production needs it (for a local run, set SHORTURL_LOCAL=on)"
    raise invalid(name, problem, example)


def hosts(listed: str, *, any_host: bool) -> list[str]:
    """Return the hosts in `listed`; raise ImproperlyConfigured for an invalid one.

    `any_host` allows *. Short URLs are shown under the host that a request names. With * a client
    can name any host.
    """
    names = [name.strip() for name in listed.split(",")]
    for name in names:
        if not HOST.fullmatch(name) and not (any_host and name == "*"):
            problem = (
                f" has {name!r}, which is not a host: list the names that users reach the service "
                "by, without scheme, port or path"
            )
            raise invalid("ALLOWED_HOSTS", problem, HOSTS_EXAMPLE)
    return names


def local_secret_key(path: Path) -> str:
    """Return the random key in the file `path`; make the file at the first call.

    Raises ImproperlyConfigured when the file can be neither read nor made.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with NamedTemporaryFile("w", dir=path.parent) as draft:
                draft.write(secrets.token_urlsafe(SECRET_KEY_LENGTH))
                draft.flush()
                with suppress(FileExistsError):  # another process was first: use its key
                    os.link(draft.name, path)
        return path.read_text()
    except OSError as error:
        problem = f" of a local run cannot be stored: {error}. Set it"
        raise invalid("SECRET_KEY", problem, KEY_EXAMPLE) from error


def port_of_the_service(path: Path) -> str:
    """Return the port in the file `path`, which a local service writes; 8000 if none runs."""
    with suppress(OSError, ValueError):
        process, port = path.read_text().split()
        os.kill(int(process), 0)  # whether it runs
        return port
    return "8000"


def secret_key() -> str:
    """Return a production's SECRET_KEY; raise ImproperlyConfigured if it is easy to guess."""
    key = required("SECRET_KEY", KEY_EXAMPLE)
    if len(key) < SECRET_KEY_LENGTH or len(set(key)) < 5:
        problem = f" is too easy to guess: use {SECRET_KEY_LENGTH} random characters or more"
        raise invalid("SECRET_KEY", problem, KEY_EXAMPLE)
    return key


def database(url: str, *, name: str = "DATABASE_URL") -> dict[str, Any]:
    """Return Django's configuration of the database at `url`, the value of the variable `name`.

    Raises ImproperlyConfigured for a URL of another database system, or with an option that libpq
    does not know.
    """
    config: dict[str, Any] = {}
    if url.startswith(("postgres://", "postgresql://")):
        with suppress(ValueError):  # a bad port; the error's text may contain part of the password
            config = env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    for option in {"host", "port", "user", "password"} & set(options):  # `manage.py dbshell` too
        config[option.upper()] = options.pop(option)
    try:
        # assume_role is an option of Django.
        make_dsn(**{option: 1 for option in options if option != "assume_role"})
        int(options.get("connect_timeout", 0))
    except (ProgrammingError, ValueError) as error:
        problem = f" has an option after the ? that PostgreSQL does not take ({str(error).strip()})"
        raise invalid(name, problem, f"{DATABASE_URL_EXAMPLE}?sslmode=require") from error
    if not config.get("NAME") and not options.get("service"):
        problem = (
            " is not the address of a PostgreSQL database (in the password, percent-encode all but "
            "letters and digits)"
        )
        raise invalid(name, problem, DATABASE_URL_EXAMPLE)
    return config


def email(url: str) -> dict[str, Any]:
    """Return Django's e-mail settings for EMAIL_URL; none when it is empty.

    Raises ImproperlyConfigured for a URL that names no mail server.
    """
    config: dict[str, Any] = {}
    if url:
        with suppress(ValueError, ImproperlyConfigured):  # a bad port, another scheme
            config = env.email_url_config(url)
        if not config.get("EMAIL_HOST") and url != "consolemail://":
            problem = (
                " is not the address of a mail server (smtp+tls:// for STARTTLS, smtp+ssl:// for "
                "TLS, consolemail:// for the log; in the password, percent-encode all but letters "
                "and digits)"
            )
            raise invalid("EMAIL_URL", problem, EMAIL_URL_EXAMPLE)
    return config
