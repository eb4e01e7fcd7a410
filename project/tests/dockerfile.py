"""The Dockerfile, read as far as its tests need."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return the stages by name, in order: each a list of instructions and their arguments."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {}
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            instruction, _, arguments = line.partition(" ")
            if instruction == "FROM":
                found[arguments.split(" AS ")[1]] = []
            list(found.values())[-1].append((instruction, arguments.strip()))
    return found


def arguments_of(stage: str, instruction: str) -> list[str]:
    """Return the arguments of each such instruction in a stage."""
    return [arguments for name, arguments in stages()[stage] if name == instruction]
