"""Roles of the files in a dataset directory: which files a cleanup may remove, and which files
versions need.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from lance_core.table.fragment import deletion_file_name
from lance_core.table.manifest import Manifest
from lance_core.table.versions import REMOVALS

FileKind = Literal["data", "deletion", "index", "transaction", "temporary"]

DIRECTORIES = ("data", "_deletions", "_indices", "_transactions", "_versions", REMOVALS)
"""Directories with files that a cleanup may remove."""

_DATA = re.compile(r"data/([^/]+\.lance)")
_BLOB = re.compile(r"data/([^/]+)/[^/]+\.blob")
_DELETION = re.compile(r"_deletions/([^/]+\.(?:arrow|bin))")
_INDEX = re.compile(r"_indices/([^/]+)/.+")
_TRANSACTION = re.compile(r"_transactions/([^/]+\.txn)")
_TEMPORARY = re.compile(
    r"_versions/\.tmp[^/]*|(?:_deletions|_transactions|_versions)/[^/]+\.(?:arrow|bin|txn|manifest)-[^/]+"
    r"|(?:data|_deletions|_transactions|_versions)/[^/]+#\d+|data/[^/]+/[^/]+\.blob#\d+"
    rf"|{REMOVALS}/[^/]+"
)
"""Staged manifests, files that are written under a temporary name, and files of cleanups that died."""


class FileRole(NamedTuple):
    """Role of a file in its dataset."""

    kind: FileKind
    name: str
    """Name of the file. For a blob file it is the name of its data file, for an index file the directory of
    the index.
    """


class ReferencedFiles:
    """Names of the files to which versions refer, by kind."""

    def __init__(self) -> None:
        self._names: dict[FileKind, set[str]] = {}

    def __contains__(self, file: FileRole) -> bool:
        return file.name in self._names.get(file.kind, ())

    def roles(self) -> Iterator[FileRole]:
        """Yield the files in no particular order."""
        return (FileRole(kind, name) for kind, names in self._names.items() for name in names)

    def add(self, manifest: Manifest) -> None:
        """Add the files to which a version refers.

        Files in base paths are added, too: a base path may be a directory of the dataset itself. Names of
        files are unique.
        """
        data = self._names.setdefault("data", set())
        deletions = self._names.setdefault("deletion", set())
        for fragment in manifest.message.fragments:
            data.update(file.path for file in fragment.files)
            if fragment.HasField("deletion_file"):
                deletions.add(deletion_file_name(fragment.id, fragment.deletion_file))
        indices = self._names.setdefault("index", set())
        indices.update(segment.description.uuid for segment in manifest.stored_index_segments)
        if manifest.message.transaction_file:
            self._names.setdefault("transaction", set()).add(manifest.message.transaction_file)


def file_role(path: str) -> FileRole | None:
    """Return the role of the file at `path`; None if it must never be removed."""
    if match := _TEMPORARY.fullmatch(path):
        return FileRole("temporary", path)
    if match := _BLOB.fullmatch(path):
        return FileRole("data", f"{match[1]}.lance")
    for kind, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(path):
            return FileRole(kind, match[1])
    return None


_PATTERNS: dict[FileKind, re.Pattern[str]] = {
    "data": _DATA,
    "deletion": _DELETION,
    "index": _INDEX,
    "transaction": _TRANSACTION,
}
