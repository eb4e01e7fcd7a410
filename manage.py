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
    except ImproperlyConfigured as error:
        sys.exit(f"manage.py: {error}")
    except UnicodeEncodeError as error:
        if error.encoding == "utf-8" or "--traceback" in sys.argv:
            raise
        character = error.object[error.start]
        sys.exit(
            f"manage.py: the output has {character!a}, which {error.encoding} cannot write: "
            "set PYTHONUTF8=1"
        )
    except OperationalError as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"manage.py: the database is unavailable: {error}".strip())
    except DatabaseError as error:
        refusal = driver_error(error, PERMISSION_DENIED)
        if refusal:
            what_now = "The role of DATABASE_URL has to own the database and all tables"
        elif NAME_INDEX in str(error):
            what_now = "Two accounts may not differ in case alone: choose another name"
        elif lacks_migrations(error):
            what_now = "Apply the migrations first: manage.py migrate"
        else:
            raise
        if "--traceback" in sys.argv:
            raise
        (reason, *details) = str(refusal or error).splitlines()
        if details and NAME_INDEX in reason:
            reason = f"{reason} ({details[0].removeprefix('DETAIL:').strip(' .')})"
        sys.exit(f"manage.py: the database: {reason.strip()}. {what_now}")


if __name__ == "__main__":
    main()
