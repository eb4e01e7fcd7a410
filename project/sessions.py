"""Sessions in the database, as Django keeps them, but no key goes there that cannot be one."""

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    """Ignores a cookie that no session could have, such as one with a NUL, which no text holds."""

    def _validate_session_key(self, key: str | None) -> bool:
        valid = super()._validate_session_key(key)  # type: ignore[misc]
        return bool(valid and key and key.isascii() and key.isalnum())
