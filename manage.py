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
from django.db import OperationalError, ProgrammingError

from shorturl.outages import PERMISSION_DENIED, driver_error, lacks_migrations


def main() -> None:
    """Run the command of sys.argv; exit with one line for the errors that a user can mend."""
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
    except OperationalError as error:
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"manage.py: the database is unavailable: {error}".strip())
    except ProgrammingError as error:
        if driver_error(error, PERMISSION_DENIED):
            what_now = "The role of DATABASE_URL has to own all tables"
        elif lacks_migrations(error):
            what_now = "Apply the migrations first: manage.py migrate"
        else:
            raise
        if "--traceback" in sys.argv:
            raise
        (reason, *_) = str(error).splitlines()
        sys.exit(f"manage.py: the database: {reason}. {what_now}")


if __name__ == "__main__":
    main()
