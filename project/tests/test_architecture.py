"""How the packages hang together: one name for one thing. `make lint` has who imports whom."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

from project.tests.conftest import ROOT
from shorturl.operations import STRATEGIES

# Modules with a name that Python, Django or pytest gives them.
CONVENTIONAL = {
    "__init__",
    "settings",
    "__main__",
    "apps",
    "conftest",
    "exceptions",
    "models",
    "urls",
    "views",
}
# One file a strategy, a migration, a command or an exercise: other folders have the same names.
FOLDERS = {*STRATEGIES, "migrations", "commands"}
FOLDERS |= {"templates", "solutions"}


def modules() -> list[Path]:
    """Return the modules of all packages, without those of what make explorer installs."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = [*config["tool"]["pytest"]["ini_options"]["testpaths"], "pginterleave"]
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return [path for path in paths if ".local" not in path.relative_to(ROOT).parts]


def test_no_two_modules_have_one_name() -> None:
    found = defaultdict(list)
    for path in modules():
        if path.stem not in CONVENTIONAL and path.parent.name not in FOLDERS:
            found[path.stem].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_no_two_classes_have_one_name() -> None:
    """But for those of tests, and what each migration and command calls its one."""
    found = defaultdict(list)
    for path in modules():
        if "tests" not in path.parts and path.parent.name not in FOLDERS:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
