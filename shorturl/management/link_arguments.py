"""What import_links and export_links have in common."""

from pathlib import Path

from django.core.management.base import CommandError

FORMATS = ("csv", "jsonl")


def format_of(name: str, given: str | None) -> str:
    """Return the format of a file: what is given, or what its name ends with."""
    found = given or Path(name).suffix.removeprefix(".")
    if found not in FORMATS:
        ways = " or ".join(f"--format {each}" for each in FORMATS)
        raise CommandError(f"What is the format of {name}? Say {ways}.", returncode=2)
    return found
