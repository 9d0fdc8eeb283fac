"""The rule for paths inside a storage."""

from functools import lru_cache

from lance_core.errors import InvalidInputError

_MOST_PATHS = 4096
"""Paths whose check is remembered: every read of a file that is open already checks the path again."""


@lru_cache(_MOST_PATHS)
def contained_path(path: str) -> str:
    """Return `path` if it stays below the root of the storage.

    Such a path is relative and separated by "/". It has no empty, "." or ".." segments, no backslashes and no
    control characters. Nothing is decoded or normalized.

    Raises:
        InvalidInputError: the path is malformed.
    """
    parts = path.split("/")
    if not path.isprintable() or "\\" in path or "" in parts or "." in parts or ".." in parts:
        raise InvalidInputError("path leaves its root or is malformed", found=repr(path))
    return path
