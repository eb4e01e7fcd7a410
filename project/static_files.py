"""The static files, without those that no page uses: ninja's Redoc, and the source maps."""

from collections.abc import Iterable
from typing import Any

from django.contrib.staticfiles.finders import AppDirectoriesFinder
from whitenoise.storage import (  # type: ignore[import-untyped]
    CompressedManifestStaticFilesStorage,
)

UNUSED = ("*.map", "redoc*")


class Finder(AppDirectoriesFinder):
    """Finds the static files of the apps for `collectstatic`, and for WhiteNoise in a local run."""

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        return super().list([*(ignore_patterns or ()), *UNUSED])


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Stores files under names with hashes; the names of source maps in a file stay as they are."""

    patterns = tuple(
        (extension, tuple(rule for rule in rules if "sourceMappingURL" not in str(rule)))
        for extension, rules in CompressedManifestStaticFilesStorage.patterns
    )
