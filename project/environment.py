"""How the settings read the environment: what is wrong is an ImproperlyConfigured that names the
variable and an example.

django-environ reads .env and takes DATABASE_URL apart. The rest is here, because it would take

    text     a leading $ for the name of another variable, and an empty value for a value
    flag     every word that it does not know for off
    number   any number, in any digits, and has no name in the message for what is not one
    hosts    empty names, and names with a scheme, which Django never matches
"""

import os
import re
import secrets
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured
from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn

DAY = 24 * 60 * 60  # seconds, which most of the numbers are
SECRET_KEY_LENGTH = 50  # what Django's `check --deploy` asks for, and 5 different characters
SECRET_KEY_EXAMPLE = (
    f"$(python3 -c 'import secrets; print(secrets.token_urlsafe({SECRET_KEY_LENGTH}))')"
)
HOSTS_EXAMPLE = "example.com,www.example.com"
DATABASE_URL_EXAMPLE = "postgres://user:password@host:5432/shorturl"
# A host as Django compares it: a name, perhaps of all its subdomains, or an address.
HOST = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)

env = environ.Env()
READ: set[str] = set()  # the names of the variables there are


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
    if value.lower() in ("on", "true", "yes", "1"):
        return True
    if value.lower() in ("off", "false", "no", "0"):
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is neither on nor off, for example {name}=on")


def number(name: str, *, default: int, least: int = 0, most: int = DAY) -> int:
    """Return the whole number `name`; raise ImproperlyConfigured outside `least` to `most`."""
    value = text(name, default=str(default))
    if not re.fullmatch("[0-9]{1,9}", value) or not least <= int(value) <= most:
        raise ImproperlyConfigured(
            f"{name}={value!r} is not a whole number from {least} to {most}, "
            f"for example {name}={default}"
        )
    return int(value)


def choice(name: str, *, default: str, choices: tuple[str, ...]) -> str:
    """Return the variable `name`; raise ImproperlyConfigured unless it is one of `choices`."""
    value = text(name, default=default)
    if value in choices:
        return value
    raise ImproperlyConfigured(
        f"{name}={value!r} is not one of {', '.join(choices)}, for example {name}={default}"
    )


def required(name: str, example: str) -> str:
    """Return the variable `name`; raise ImproperlyConfigured, with the example, without it."""
    if value := text(name):
        return value
    raise ImproperlyConfigured(
        f"{name} is not set, and a production needs it, for example {name}={example} "
        "(for a local run, set SHORTURL_LOCAL=on)"
    )


def hosts(listed: str, *, any_host: bool) -> list[str]:
    """Return the hosts `listed`; raise ImproperlyConfigured for what is not one.

    `any_host` says whether * is allowed. Short URLs are shown under the host that a request names,
    which would then be anybody's.
    """
    names = [name.strip() for name in listed.split(",")]
    for name in names:
        if not HOST.fullmatch(name) and not (any_host and name == "*"):
            raise ImproperlyConfigured(
                f"ALLOWED_HOSTS has {name!r}, which is not a host: list the names that users reach "
                "the service by, without scheme, port or path, for example "
                f"ALLOWED_HOSTS={HOSTS_EXAMPLE}"
            )
    return names


def local_secret_key(path: Path) -> str:
    """Return the random key kept in `path`, which is made at the first call.

    Raises ImproperlyConfigured when it can be neither read nor made.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_urlsafe(SECRET_KEY_LENGTH))
            try:
                with suppress(FileExistsError):  # another process was first: its key is the key
                    os.link(draft, path)
            finally:
                draft.unlink()
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(
            f"The secret key of a local run cannot be kept: {error}. "
            f"Set it, for example SECRET_KEY={SECRET_KEY_EXAMPLE}"
        ) from error


def secret_key() -> str:
    """Return a production's SECRET_KEY; raise ImproperlyConfigured for one that can be guessed."""
    key = required("SECRET_KEY", SECRET_KEY_EXAMPLE)
    if len(key) < SECRET_KEY_LENGTH or len(set(key)) < 5:
        raise ImproperlyConfigured(
            f"SECRET_KEY is too easy to guess: use {SECRET_KEY_LENGTH} random characters or more, "
            f"for example SECRET_KEY={SECRET_KEY_EXAMPLE}"
        )
    return key


def database(url: str, *, name: str = "DATABASE_URL") -> dict[str, Any]:
    """Return Django's configuration of the database at `url`, with what it says of a connection.

    `name` is the variable that it stands in.

    Raises ImproperlyConfigured for a URL that is not PostgreSQL's, or that says something of a
    connection that PostgreSQL's client does not know.
    """
    config: dict[str, Any] = {}
    if url.startswith(("postgres://", "postgresql://")):
        with suppress(ValueError):  # a bad port; the error's text may hold part of the password
            config = env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    for option in ("host", "port", "user", "password"):  # where `manage.py dbshell` looks, too
        if option in options:
            config[option.upper()] = options.pop(option)
    for option, value in options.items():
        known = is_parameter(option)
        if not known or (option == "connect_timeout" and not isinstance(value, int)):
            problem = "takes a whole number of seconds" if known else "PostgreSQL does not have"
            raise ImproperlyConfigured(
                f"{name} has the option {option}, which {problem}: after the ? write "
                "the options of a connection to PostgreSQL, "
                f"for example {name}={DATABASE_URL_EXAMPLE}?sslmode=require"
            )
    if not config.get("NAME") and not options.get("service"):
        raise ImproperlyConfigured(
            f"{name} is not the address of a PostgreSQL database, for example "
            f"{name}={DATABASE_URL_EXAMPLE} (in the password, percent-encode all but "
            "letters and digits)"
        )
    return config


def is_parameter(name: str) -> bool:
    """Return whether a URL may have it after the "?": it is libpq's, or a role to assume."""
    try:
        make_dsn(**{name: 1})
    except ProgrammingError:
        return name == "assume_role"  # which is Django's
    return True
