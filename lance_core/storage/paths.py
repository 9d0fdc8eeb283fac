"""The rule for paths inside a storage."""

from lance_core.errors import InvalidInputError


def contained_path(path: str) -> str:
    """Return `path` when it stays below the storage's root, else raise `InvalidInputError`.

    A contained path is relative, "/" separated, without empty, "." or ".." segments, backslashes or control
    characters. Nothing is decoded or normalised: a path is right as it stands or it is refused.
    """
    if not path.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidInputError("path leaves its root or is malformed", found=repr(path))
    return path
