#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys

try:
    import django  # noqa: F401
except ImportError:
    sys.exit("manage.py: Django is missing: use .venv/bin/python, which `make run` installs")

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import DatabaseError, OperationalError

from project.accounts import NAME_INDEX
from shorturl.outages import PERMISSION_DENIED, driver_error, lacks_migrations


def explain(error: Exception) -> str:
    """Return a sentence about an error that an operator can mend; "" for any other."""
    match error:
        case ImproperlyConfigured():
            return str(error)
        case UnicodeEncodeError(encoding=encoding) if encoding != "utf-8":
            character = error.object[error.start]
            return f"the output has {character!a}, which {encoding} cannot write: set PYTHONUTF8=1"
        case UnicodeEncodeError():  # what Python makes of the bytes of an argument
            return f"{error.object!a} is not text in UTF-8"
        case OperationalError():
            return f"the database is unavailable: {error}".strip()
        case DatabaseError() if driver_error(error, PERMISSION_DENIED):
            advice = "The role of DATABASE_URL has to own the database and all tables"
        case DatabaseError() if NAME_INDEX in str(error):
            advice = "Two accounts may not differ in case alone: choose another name"
        case DatabaseError() if lacks_migrations(error):
            advice = "Apply the migrations first: manage.py migrate"
        case _:
            return ""
    # The refusal may be the cause of an error of Django's.
    reason, *details = str(driver_error(error, PERMISSION_DENIED) or error).splitlines()
    for detail in details[:1]:
        if detail.startswith("DETAIL:"):
            reason = f"{reason} ({detail.removeprefix('DETAIL:').strip(' .')})"
    return f"the database: {reason.strip()}. {advice}"


def main() -> None:
    """Run the command of sys.argv; exit with one line for what an operator can mend."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if sys.argv[1:2] == ["test"]:  # Django's would find none, and succeed
        sys.exit("manage.py: the tests run with pytest: make test, or pytest PATH for some of them")
    try:
        execute_from_command_line(sys.argv)
    except BrokenPipeError:  # `| head` has seen enough; the rest goes nowhere, without an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("manage.py: interrupted", file=sys.stderr)
        sys.exit(130)  # as a shell names the end by Ctrl-C
    except Exception as error:
        sentence = explain(error)
        if not sentence or "--traceback" in sys.argv:
            raise
        sys.exit(f"manage.py: {sentence}")


if __name__ == "__main__":
    main()
