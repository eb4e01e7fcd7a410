"""How the settings read the environment.

What is wrong is an ImproperlyConfigured that names the variable and an example. django-environ
reads .env and takes DATABASE_URL apart. Its casts are not used, as their errors name no variable:
they take a leading $ for the name of another variable, and a word that is neither for off.
"""

import os
import re
import secrets
from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured
from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn

DAY = 24 * 60 * 60  # seconds, which most of the numbers are
SECRET_KEY_LENGTH = 50  # what Django's `check --deploy` asks for, and 5 different characters
KEY_EXAMPLE = "$(python3 -c 'import secrets; print(secrets.token_urlsafe(50))')"
HOSTS_EXAMPLE = "example.com,www.example.com"
EMAIL_URL_EXAMPLE = "smtp+tls://user:password@mail.example.com:587"
DATABASE_URL_EXAMPLE = "postgres://user:password@host:5432/shorturl"
# A host as Django compares it: a name, perhaps of all its subdomains, or an address.
HOST = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")

env = environ.Env()
READ: set[str] = set()  # the names of the variables there are


def invalid(name: str, problem: str, example: object) -> ImproperlyConfigured:
    """Return the error that says what is wrong with the variable `name`, and what is right."""
    return ImproperlyConfigured(f"{name}{problem}, for example {name}={example}")


def read_env_file(path: Path) -> None:
    """Add what the file says to the environment, whose own variables win; it may be missing.

    Raises ImproperlyConfigured when it cannot be read, where django-environ goes on without it.
    """
    try:
        if path.exists():
            env.read_env(StringIO(path.read_text("utf-8-sig")))
    except (OSError, UnicodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error}") from error


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


def required(name: str, example: str) -> str:
    """Return the variable `name`; raise ImproperlyConfigured, with the example, without it."""
    if value := text(name):
        return value
    problem = " is not set, and a production needs it (for a local run, set SHORTURL_LOCAL=on)"
    raise invalid(name, problem, example)


def hosts(listed: str, *, any_host: bool) -> list[str]:
    """Return the hosts `listed`; raise ImproperlyConfigured for what is not one.

    `any_host` says whether * is allowed. Short URLs are shown under the host that a request names,
    which would then be anybody's.
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
    """Return the random key kept in `path`, which is made at the first call.

    Raises ImproperlyConfigured when it can be neither read nor made.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with NamedTemporaryFile("w", dir=path.parent) as draft:
                draft.write(secrets.token_urlsafe(SECRET_KEY_LENGTH))
                draft.flush()
                with suppress(FileExistsError):  # another process was first: its key is the key
                    os.link(draft.name, path)
        return path.read_text()
    except OSError as error:
        problem = f" of a local run cannot be kept: {error}. Set it"
        raise invalid("SECRET_KEY", problem, KEY_EXAMPLE) from error


def secret_key() -> str:
    """Return a production's SECRET_KEY; raise ImproperlyConfigured for one that can be guessed."""
    key = required("SECRET_KEY", KEY_EXAMPLE)
    if len(key) < SECRET_KEY_LENGTH or len(set(key)) < 5:
        problem = f" is too easy to guess: use {SECRET_KEY_LENGTH} random characters or more"
        raise invalid("SECRET_KEY", problem, KEY_EXAMPLE)
    return key


def database(url: str, *, name: str = "DATABASE_URL") -> dict[str, Any]:
    """Return Django's configuration of the database at `url`, which is the variable `name`.

    Raises ImproperlyConfigured for a URL that is not PostgreSQL's, or that has an option that its
    client does not know.
    """
    config: dict[str, Any] = {}
    if url.startswith(("postgres://", "postgresql://")):
        with suppress(ValueError):  # a bad port; the error's text may hold part of the password
            config = env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    for option in {"host", "port", "user", "password"} & set(options):  # `manage.py dbshell` too
        config[option.upper()] = options.pop(option)
    try:
        make_dsn(**{option: 1 for option in options if option != "assume_role"})  # Django's own
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
    """Return Django's settings for sending e-mail by EMAIL_URL; none when it is empty.

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
