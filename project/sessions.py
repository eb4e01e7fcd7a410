"""Django's sessions in the database, which is not queried for a key that no session can have."""

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    """Ignores a key that Django never makes, such as one with a NUL, which PostgreSQL refuses."""

    def _validate_session_key(self, key: str | None) -> bool:
        valid = super()._validate_session_key(key)  # type: ignore[misc]
        return bool(valid and key and key.isascii() and key.isalnum())
