"""How the settings read the environment, with django-environ.

A wrong value raises an ImproperlyConfigured that names the variable and an example.
"""

import os
import re
import secrets
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import URLValidator
from environ import Env

SECRET_KEY_LENGTH = 50  # `check --deploy` requires it, and 5 different characters
MAX_SECONDS = 24 * 60 * 60
# A host in Django's syntax: a name, with a leading dot for all its subdomains, or an address.
HOST = re.compile(r"\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]", re.IGNORECASE)
ENV_LINE = re.compile(r"#|$|(export )?\w+=")
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
EXAMPLES = {
    "ALLOWED_HOSTS": "example.com,www.example.com",
    "DATABASE_URL": "postgres://user:password@host:5432/shorturl",
    "EMAIL_URL": "smtp+tls://user:password@mail.example.com:587",
    "SECRET_KEY": "$(python3 -c 'import secrets; print(secrets.token_urlsafe(50))')",
    "SHORTURL_FOOTER_LINKS": "Imprint=https://example.com/imprint,Abuse=mailto:abuse@example.com",
    "SHORTURL_HOME_REDIRECT": "https://example.com/page",
}
ENCODED = "percent-encode all but letters and digits in the password"

variables: set[str] = set()  # the names of all that are read


def invalid(name: str, problem: str, example: object = None) -> ImproperlyConfigured:
    """Return the error for the variable `name`: the problem, and an example of a right value."""
    example = EXAMPLES[name] if example is None else example
    return ImproperlyConfigured(f"{name}{problem}, for example {name}={example}")


def read_env_file(path: Path) -> None:
    """Add the file's variables to the environment, which wins; the file may be missing.

    Raises ImproperlyConfigured when it or a line cannot be read. django-environ would ignore that.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines() if path.exists() else []
    except (OSError, UnicodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not ENV_LINE.match(line.strip()):  # the line may be a secret, and is not shown
            raise ImproperlyConfigured(f"{path}: line {number} is neither NAME=value nor # comment")
    Env.read_env(StringIO("\n".join(map(str.strip, lines))))


def text(name: str, *, default: str = "") -> str:
    """Return the variable `name`, or `default` when it is unset or empty."""
    variables.add(name)
    return os.environ.get(name, "").strip() or default


def required(name: str) -> str:
    """Return the variable `name`; raise ImproperlyConfigured if it is unset or empty."""
    if value := text(name):
        return value
    raise invalid(name, " is not set, and a production needs it (a local run: SHORTURL_LOCAL=on)")


def flag(name: str, *, default: bool) -> bool:
    """Return the on/off variable `name`; raise ImproperlyConfigured for anything else."""
    value = text(name, default="on" if default else "off")
    if value.lower() not in ON + OFF:  # django-environ takes an unknown word for off
        raise invalid(name, f"={value!r} is neither on nor off", "on")
    return bool(Env.parse_value(value, bool))


def number(name: str, *, default: int, minimum: int = 0, maximum: int = MAX_SECONDS) -> int:
    """Return the whole number `name`; raise ImproperlyConfigured outside of its limits."""
    value = text(name, default=str(default))
    with suppress(ValueError):
        if minimum <= (parsed := int(Env.parse_value(value, int))) <= maximum:
            return parsed
    problem = f"={value[:20]!r} is not a whole number from {minimum} to {maximum}"
    raise invalid(name, problem, default)


def url(name: str) -> str:
    """Return the web address `name`, or ""; raise ImproperlyConfigured for anything else."""
    value = text(name)
    if value:
        check_urls(name, [value])
    return value


def named_urls(name: str) -> dict[str, str]:
    """Return the list TEXT=URL of the variable `name` as a dict; raise ImproperlyConfigured."""
    try:
        parsed: dict[str, str] = Env.parse_value(text(name), dict)
    except ValueError as error:
        raise invalid(name, " is not a list of TEXT=URL") from error
    check_urls(name, [value for value in parsed.values() if not value.startswith("mailto:")])
    return parsed


def check_urls(name: str, urls: list[str]) -> None:
    """Raise ImproperlyConfigured, which names the first URL that is neither https: nor http:."""
    try:
        for value in urls:
            URLValidator(schemes=["http", "https"])(value)
    except ValidationError as error:
        raise invalid(name, f" has {value!r}, which is not a URL with https: or http:") from error


def hosts(name: str, listed: str, *, any_host: bool) -> list[str]:
    """Return the hosts in `listed`; raise ImproperlyConfigured for an invalid one.

    `any_host` allows *. Short URLs are shown under the host that a request names. With * a client
    can name any host.
    """
    names = [host.strip() for host in listed.split(",")]
    for host in names:
        if not HOST.fullmatch(host) and not (any_host and host == "*"):
            raise invalid(name, f" has {host!r}, which is not a host without scheme, port and path")
    return names


def secret_key(name: str) -> str:
    """Return a production's key; raise ImproperlyConfigured if it is easy to guess."""
    key = required(name)
    if len(key) < SECRET_KEY_LENGTH or len(set(key)) < 5:
        problem = f" is too easy to guess: use {SECRET_KEY_LENGTH} random characters or more"
        raise invalid(name, problem)
    return key


def local_secret_key(path: Path) -> str:
    """Return the random key in the file `path`, which the first call makes.

    Raises ImproperlyConfigured when the file can be neither read nor made.
    """
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileExistsError), path.open("x") as file:
            path.chmod(0o600)
            file.write(secrets.token_urlsafe(SECRET_KEY_LENGTH))
        return path.read_text()
    except OSError as error:
        raise invalid("SECRET_KEY", f" cannot be stored in a file: {error}. Set it") from error


def database(name: str, url: str) -> dict[str, Any]:
    """Return Django's configuration of the database at `url`; raise ImproperlyConfigured."""
    config: dict[str, Any] = {}
    if url.startswith(("postgres://", "postgresql://")):
        with suppress(ValueError):  # a bad port; the error's text may contain part of the password
            config = Env.db_url_config(url)
    options = config.setdefault("OPTIONS", {})
    for option in {"host", "port", "user", "password"} & set(options):  # `manage.py dbshell` too
        config[option.upper()] = options.pop(option)
    if not config.get("NAME") and not options.get("service"):
        raise invalid(name, f" is not the address of a PostgreSQL database ({ENCODED})")
    return config


def email(name: str, url: str) -> dict[str, Any]:
    """Return Django's e-mail settings for `url`, which may be empty; raise ImproperlyConfigured."""
    config: dict[str, Any] = {}
    with suppress(ValueError, ImproperlyConfigured):  # a bad port, another scheme
        config = Env.email_url_config(url or "dummymail://")
    if not config.get("EMAIL_HOST") and url not in ("", "consolemail://"):
        raise invalid(name, f" is not the address of a mail server ({ENCODED})")
    return config
