"""Files that a version added and removed, by which a later version shows whether it is based on this one.

A version that lost the race for its number after all may lie below newer versions that are not based on it;
see `lance_core.table.versions.require_in_history`. Names of files are used once. So a later version that
names a file which this version added is based on it.
"""

from collections.abc import Callable
from typing import NamedTuple

from lance_core.errors import VersionNotFoundError
from lance_core.maintenance.file_roles import FileRole, ReferencedFiles
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.versions import LookAtLater


class FileChanges(NamedTuple):
    """Files that a version added and removed."""

    added: set[FileRole]
    removed: set[FileRole]

    def show_in(self, later: Manifest) -> bool | None:
        """Return whether a later version shows that it is based on this one; None if the files do not tell.

        A file that was added may have been removed again, and a file that was removed may be missing because
        another version removed it, too. So False is no proof, and a missing file is no sign.
        """
        files = _files(later)
        if self.added:
            return not self.added.isdisjoint(files)
        return None if self.removed.isdisjoint(files) else False


def look_at_later(
    storage: Storage, made: Manifest, read_before: Callable[[], Manifest | None]
) -> LookAtLater:
    """Return the function that `require_in_history` needs for the version `made`.

    `read_before` returns the version on which `made` is based, or None for the first version. If it raises
    `VersionNotFoundError`, the files do not tell.
    """

    def look(version: int, path: str) -> bool | None:
        later = read_manifest(storage, version, path)
        try:
            before = read_before()
        except VersionNotFoundError:
            return None
        mine, theirs = _files(made), set() if before is None else _files(before)
        return FileChanges(mine - theirs, theirs - mine).show_in(later)

    return look


def _files(manifest: Manifest) -> set[FileRole]:
    files = ReferencedFiles()
    files.add(manifest)
    return {role for role in files.roles() if role.kind != "transaction"}  # each version has another one
