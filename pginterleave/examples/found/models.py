"""The models of the findings, whose tables a test database has."""

from . import (  # noqa: F401
    fsm,
    mptt_tree,
    ordered,
    solo_row,
    tags,
    treebeard_tree,
    versions,
)
