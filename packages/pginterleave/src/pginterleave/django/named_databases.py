"""No statement reaches a database that the test has not named, as in a TestCase of Django's."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any
from unittest.mock import patch

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from pginterleave.explorer_errors import CannotExplore


class NamedDatabases:
    """Refuses the other databases of the settings in every thread, before anything is sent.

    `refusal` is what the last refused statement was told: code under test may swallow the error.
    """

    def __init__(self, aliases: Collection[str]) -> None:
        self.aliases = aliases
        self.refusal = ""

    @contextlib.contextmanager
    def refuse_others(self) -> Iterator[None]:
        """Enter to refuse: Django calls one of these methods before it uses a connection."""
        with contextlib.ExitStack() as stack:
            for name in ("connect", "ensure_connection"):
                method = self._check_before(getattr(BaseDatabaseWrapper, name))
                stack.enter_context(patch.object(BaseDatabaseWrapper, name, method))
            yield

    def check(self, alias: str) -> None:
        """Raise CannotExplore if the test does not name this alias."""
        if alias in self.aliases:
            return
        names = ", ".join(f'"{name}"' for name in [*self.aliases, alias])
        self.refusal = (
            f"The test does not say that it uses the database {alias!r}, which may be no test "
            f"database: add @pytest.mark.django_db(transaction=True, databases=[{names}])."
        )
        raise CannotExplore(self.refusal)

    def _check_before(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def check_and_call(wrapper: BaseDatabaseWrapper, *args: Any, **options: Any) -> Any:
            if wrapper.alias in connections:  # and not made by the code itself
                self.check(wrapper.alias)
            return method(wrapper, *args, **options)

        return check_and_call
