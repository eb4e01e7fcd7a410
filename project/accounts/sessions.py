"""Django's sessions in the database, without a query for a key that no session can have."""

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    """Ignores a key that Django never makes, such as one with a NUL, which PostgreSQL refuses."""

    def __init__(self, session_key: str | None = None) -> None:
        possible = session_key and session_key.isascii() and session_key.isalnum()
        super().__init__(session_key if possible else None)
