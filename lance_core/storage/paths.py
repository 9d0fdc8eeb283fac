"""The rule for paths inside a storage."""

from lance_core.errors import InvalidInputError


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
