"""Each right strategy, copied as docs/copying-a-strategy.md says, is right in another project."""

import ast
import importlib.util
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.utils import timezone

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave

if not apps.is_installed("links"):  # in a run of the service's tests, which has its settings
    pytest.skip("the models are another project's: use copying/run", allow_module_level=True)

from links.models import Bookmark, BookmarkCount, Link, LinkCount

SERVICE = Path(__file__).resolve().parents[3]
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
# What is copied from keys.py, in addition to the name of the constraint.
COPIED = ["ALPHABET", "ATTEMPTS_PER_LENGTH", "RESERVED", "is_reserved", "is_collision", "violates"]
UNIQUE = """
    SELECT indexrelid::regclass::text FROM pg_index
    WHERE indrelid = %s::regclass AND indisunique AND NOT indisprimary
"""

Copy = Callable[[str, str], ModuleType]  # from the operation and name of a strategy


@dataclass(frozen=True)
class Project:
    """A model, and the changes of a copy that docs/copying-a-strategy.md names for it."""

    model: Any
    counts: Any
    edits: dict[str, str]  # regular expressions and their replacements
    # The values of columns without a db_default, for a raw INSERT of process 1 or 2.
    values: Callable[[int], dict[str, Any]] = lambda _: {}
    key: str = "key"
    target_url: str = "target_url"
    hits: str = "hits"

    def edit(self, source: str) -> str:
        """Return the source of a strategy with all changes."""
        name = self.model.__name__
        edits = {
            r"\bShortUrl\b": name,
            r"\bPartialCount\b": self.counts.__name__,
            r"from shorturl\.(exceptions|(strategies\.exhibits\.)?models)": "from links.models",
            "import LIVE": f"import {name.upper()}_LIVE as LIVE",
            r"from shorturl\.links\.keys": f"from keys_of_{name}",
            r"(?s)\bDEFAULTS: .*?\n\}": f"DEFAULTS = {dict.fromkeys(self.values(0))}",
            **self.edits,
        }
        for before, after in edits.items():
            source = re.sub(before, after, source)
        return source


PROJECTS = {
    "as ours": Project(Link, LinkCount, {}),
    "other names, a UUID, Python's defaults, soft delete": Project(
        Bookmark,
        BookmarkCount,
        {
            # The model has no limits of links.
            r"\n +AND \((expires_at|max_hits) IS NULL OR .*\)": "",
            r"\[hits, key, hits\]": "[hits, key]",
            # Its columns have other names.
            r"filter\(key=key\)": "filter(slug=key, deleted_at=None)",
            r"\bkey=key\b": "slug=key",
            r"ON CONFLICT \(key\)": "ON CONFLICT (slug) WHERE deleted_at IS NULL",
            r" \(key, (.*)\) SELECT key\b": r" (short_url_id, \1) SELECT id",
            r"ON CONFLICT \(key, slot\)": "ON CONFLICT (short_url_id, slot)",
            r'"key"': '"slug"',
            r"WHERE key = %s": "WHERE slug = %s",
            r"\btarget_url\b": "url",
            r"\bhits\b": "clicks",
        },
        lambda process: {"id": UUID(int=process), "clicks": 0, "added": WHEN},
        key="slug",
        target_url="url",
        hits="clicks",
    ),
}


def strategies_with(operation: str, verdict: str) -> list[str]:
    files = sorted((SERVICE / "strategies" / operation).glob("*.py"))
    pattern = rf'^VERDICT = "(?:{verdict})"$'
    return [file.stem for file in files if re.search(pattern, file.read_text(), re.MULTILINE)]


def load_module(name: str, source: str, directory: Path) -> ModuleType:
    path = directory / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(params=PROJECTS)
def project(request: pytest.FixtureRequest) -> Project:
    return PROJECTS[request.param]


def source_of_keys(model: Any) -> str:
    """Return what is copied from keys.py, with the constraint of this model."""
    with connection.cursor() as cursor:
        cursor.execute(UNIQUE, [model._meta.db_table])
        ((constraint,),) = cursor.fetchall()
    parts = ["import string", "from django.db import IntegrityError"]
    parts.append(f"KEY_CONSTRAINT = {constraint!r}")
    source = (SERVICE / "links" / "keys.py").read_text()
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        if getattr(target, "id", getattr(target, "name", None)) in COPIED:
            parts.append(ast.get_source_segment(source, node) or "")
    return "\n".join(parts)


@pytest.fixture
def copied(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """Return a function that copies a strategy, and keys.py with the constraint of this model."""

    def copy(operation: str, name: str) -> ModuleType:
        keys = f"keys_of_{project.model.__name__}"
        source = source_of_keys(project.model)
        monkeypatch.setitem(sys.modules, keys, load_module(keys, source, tmp_path))
        strategy = (SERVICE / "strategies" / operation / f"{name}.py").read_text()
        copied = load_module(name, project.edit(strategy), tmp_path)
        if hasattr(copied, "randrange"):
            monkeypatch.setattr(copied, "randrange", lambda _: 0)  # all draw the same slot
        return copied

    return copy


def total(project: Project) -> int:
    """Return the sum of the hits, partial counts included."""
    tables = (project.model, project.counts)
    return sum(sum(table.objects.values_list(project.hits, flat=True)) for table in tables)


@pytest.mark.parametrize("in_a_transaction", [False, True])
@pytest.mark.parametrize("name", strategies_with("creating", "right"))
def test_two_creates_of_the_same_key_each_get_a_link(
    interleave: Interleave, name: str, in_a_transaction: bool, project: Project, copied: Copy
) -> None:
    if name == "permuted_sequence" and project.model is Bookmark:
        pytest.xfail("see its docstring: the primary key must come from a sequence")
    create = copied("creating", name).create
    # Django's defaults of columns do not reach a raw INSERT.
    sends_raw_insert = name in ("on_conflict", "permuted_sequence")

    def create_link(process: int) -> str:
        values = project.values(process) if sends_raw_insert else {}
        with transaction.atomic() if in_a_transaction else nullcontext():
            link = create(f"https://{process}.example/", keys=["same", f"own{process}"], **values)
        return str(getattr(link, project.key))

    def each_has_its_own(outcomes: list[Outcome]) -> None:
        links = project.model.objects.values_list(project.key, project.target_url)
        expected = {
            outcome.returned: f"https://{n}.example/" for n, outcome in enumerate(outcomes, 1)
        }
        assert (dict(links), len(links)) == (expected, 2)

    interleave(partial(create_link, 1), partial(create_link, 2), invariant=each_has_its_own)


# The link of the test has neither a limit nor an expiry.
RIGHT_WITHOUT_LIMIT = "right|right, unless a link has a limit or an expiry"


@pytest.mark.parametrize("name", strategies_with("resolving", RIGHT_WITHOUT_LIMIT))
def test_two_hits_of_a_link_count_and_none_of_a_deleted_one(
    interleave: Interleave, name: str, project: Project, copied: Copy
) -> None:
    copy = copied("resolving", name)
    link = {project.key: "a", project.target_url: "https://0.example/"}
    project.model.objects.create(**link)
    if project.model is Bookmark:
        Bookmark.objects.create(**link, deleted_at=timezone.now(), clicks=5)  # with the same key
    hits_before = total(project)

    def both_count(outcomes: list[Outcome]) -> None:
        assert total(project) == hits_before + 2

    interleave(partial(copy.resolve, "a"), invariant=both_count)
    with pytest.raises(project.model.DoesNotExist):
        copy.resolve("unknown")


def test_the_document_finds_the_constraint_by_the_statement_of_this_file() -> None:
    document = SERVICE.parent / "docs" / "copying-a-strategy.md"
    steps = " ".join(document.read_text().split())
    assert " ".join(UNIQUE.split()).replace("%s", "'links_link'") in steps
