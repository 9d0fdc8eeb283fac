"""Changes of a version, by which a later version shows whether it is based on this one.

A version that lost the race for its number after all may lie below newer versions that are not based on it;
see `lance_core.table.versions.require_in_history`. Writers give each new file a new name. So a later version
that names a file which this version wrote is based on it.

A deletion file is replaced by the next delete in its fragment. Then the rows tell: deleted rows stay deleted,
so a later version in which all these rows are deleted contains the delete. Changes of settings and dropped
columns write no files. A later version that has the settings and columns of this one contains the change.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lance_core.errors import CommitConflictError, FileMissingError, VersionNotFoundError
from lance_core.maintenance.file_roles import FileRole, ReferencedFiles
from lance_core.number_sets import are_among
from lance_core.storage import Storage
from lance_core.table.deletions import read_deletions
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import read_transaction
from lance_core.table.versions import LookAtLater


class FileChanges(NamedTuple):
    """Files that a version added and removed."""

    added: set[FileRole]
    """Files that the version wrote; none for a restore, because another restore may name the same files."""
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
        operation = _operation(storage, made)
        written = mine - theirs if operation not in (None, "restore") else set()
        shown = FileChanges(written, theirs - mine).show_in(later)
        if before is None:
            return shown
        if shown is False and {role.kind for role in written} == {"deletion"}:
            return _are_deleted_in(storage, before, made, later)
        if shown is None and operation in ("update_config", "project"):
            return _are_set_in(before, made, later) or None
        return shown

    return look


def _files(manifest: Manifest) -> set[FileRole]:
    files = ReferencedFiles()
    files.add(manifest)
    return {role for role in files.roles() if role.kind != "transaction"}  # each version has another one


def _operation(storage: Storage, made: Manifest) -> str | None:
    """Return the field name of the operation; None if the transaction file was removed."""
    try:
        return str(read_transaction(storage, made).WhichOneof("operation"))
    except CommitConflictError:
        return None


def _are_deleted_in(storage: Storage, before: Manifest, made: Manifest, later: Manifest) -> bool:
    """Return whether all rows that were deleted between `before` and `made` are deleted in a later version,
    too.
    """
    then, mine, theirs = ({each.id: each for each in version.fragments} for version in (before, made, later))
    if mine.keys() - then.keys() or (then.keys() - mine.keys()) & theirs.keys():
        return False
    changed = (each for each in mine.values() if each.deletion_file != then[each.id].deletion_file)
    try:
        return all(each.id in theirs and _has_deleted(storage, theirs[each.id], each) for each in changed)
    except FileMissingError:  # cleaned up, because a newer version replaced it
        return False


def _has_deleted(storage: Storage, later: Fragment, made: Fragment) -> bool:
    """Return whether a fragment of a later version has the same rows, and its deleted rows contain those of
    the fragment of `made`.
    """
    files = later.deletion_file, made.deletion_file
    if any(file is None or file.base_id is not None for file in files):
        return False
    if {file.path for file in later.files}.isdisjoint({file.path for file in made.files}):
        return False
    return bool(are_among(read_deletions(storage, later), read_deletions(storage, made)).all())


def _are_set_in(before: Manifest, made: Manifest, later: Manifest) -> bool:
    """Return whether settings or columns changed between `before` and `made`, and a later version has all of
    them as they are in `made`.
    """
    then, mine, theirs = (_settings(version) for version in (before, made, later))
    changed = {key for key in then.keys() | mine.keys() if then.get(key) != mine.get(key)}
    return bool(changed) and all(theirs.get(key) == mine.get(key) for key in changed)


def _settings(manifest: Manifest) -> dict[tuple[str, str | int], str | bytes]:
    """Return the settings and metadata of a version by kind and key, and its columns by their field ids."""
    message = manifest.message
    maps: dict[str, Mapping[str, str | bytes]] = {
        "config": message.config,
        "table metadata": message.table_metadata,
        "schema metadata": message.schema_metadata,
    }
    found: dict[tuple[str, str | int], str | bytes] = {
        ("field", each.id): each.SerializeToString(deterministic=True) for each in message.fields
    }
    for kind, entries in maps.items():
        found |= {(kind, key): value for key, value in entries.items()}
    return found
