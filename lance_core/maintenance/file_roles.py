"""Files of a dataset's directory that belong to its versions, and their names in manifests."""

import re
from typing import Literal, NamedTuple

from lance_core.table.fragment import deletion_file_name
from lance_core.table.manifest import Manifest

FileKind = Literal["data", "deletion", "index", "transaction", "temporary"]

DIRECTORIES = ("data", "_deletions", "_indices", "_transactions", "_versions")
"""Directories of these files."""

_DATA = re.compile(r"data/([^/]+\.lance)")
_BLOB = re.compile(r"data/([^/]+)/[^/]+\.blob")
_DELETION = re.compile(r"_deletions/([^/]+\.(?:arrow|bin))")
_INDEX = re.compile(r"_indices/([^/]+)/.+")
_TRANSACTION = re.compile(r"_transactions/([^/]+\.txn)")
_TEMPORARY = re.compile(
    r"_versions/(?:\.tmp[^/]*|[^/]+\.manifest-[^/]+)|(?:data|_deletions|_transactions|_versions)/[^/]+#\d+"
    r"|data/[^/]+/[^/]+\.blob#\d+"
)
"""Manifests that were staged, and files that were written under another name first."""


class FileRole(NamedTuple):
    """The role of a file for the versions of its dataset."""

    kind: FileKind
    name: str
    """Name of the data file that blobs belong to, or of the directory of an index; else the name of the
    file.
    """


class ReferencedFiles:
    """Names of files by kind."""

    def __init__(self) -> None:
        self._names: dict[FileKind, set[str]] = {}

    def __contains__(self, file: FileRole) -> bool:
        return file.name in self._names.get(file.kind, ())

    def add(self, manifest: Manifest, *, with_bases: bool = False) -> None:
        """Add what a version refers to in its own directory; with those in base paths if asked for."""
        data = self._names.setdefault("data", set())
        deletions = self._names.setdefault("deletion", set())
        for fragment in manifest.message.fragments:
            data.update(file.path for file in fragment.files if with_bases or not file.HasField("base_id"))
            if fragment.HasField("deletion_file"):
                deletion_file = fragment.deletion_file
                if with_bases or not deletion_file.HasField("base_id"):
                    deletions.add(deletion_file_name(fragment.id, deletion_file))
        indices = self._names.setdefault("index", set())
        for segment in manifest.index_segments:
            if with_bases or segment.description.base_id is None:
                indices.add(segment.description.uuid)
        if manifest.message.transaction_file:
            self._names.setdefault("transaction", set()).add(manifest.message.transaction_file)


def file_role(path: str) -> FileRole | None:
    """Return the role of the file at `path`; None if it must not be removed, whatever its age."""
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
