"""Dropping a table with all its versions, tags and branches.

The order of the steps keeps readers from seeing a partial table, and allows an interrupted drop to be
repeated:

    1. names of tags and branches    the table is complete, some of its names are missing
    2. versions of branches
    3. versions of the table, the newest one last: until then the table is complete at that version
    4. everything else, the directory itself last; nobody can open the table any more

If the drop is interrupted before the third step is done, the table can still be opened, and dropped again. If
it is interrupted later, unused files remain. Their names are unique, so a new table at the same place does
not read them, and `cleanup_old_versions` of the new table removes them.

A reader that opened the table before finds files missing. A commit may land between two steps. Therefore the
directory is listed until it is empty.
"""

from contextlib import suppress

from lance_core.errors import CorruptFileError, DatasetNotFoundError, FileMissingError, StorageError
from lance_core.storage import Entry, Storage
from lance_core.table.manifest_store import forget_table
from lance_core.table.refs import branch_names, branch_storage
from lance_core.table.versions import REFS, VERSIONS, latest_manifest

_MOST_ROUNDS = 5
"""Maximum number of listings of the directory. Every listing after the first is due to a writer."""


def drop_table(root: Storage) -> None:
    """Remove the table at `root`.

    Raises:
        DatasetNotFoundError: there is no table.
        StorageError: the storage failed, or other writers keep writing. The text above says what remains.
    """
    withdraw_table(root)
    remove_leftovers(root)


def withdraw_table(root: Storage) -> None:
    """Do the first three steps, after which nobody can open the table. Errors are those of `drop_table`."""
    if not _has_versions(root):
        raise DatasetNotFoundError("there is no dataset")
    branches = branch_names(root)
    root.delete_directory(REFS)
    for branch in branches:
        _remove_versions(branch_storage(root, branch))
    _remove_versions(root)


def remove_leftovers(root: Storage) -> None:
    """Do the last step for a table that was withdrawn. Errors are those of `drop_table`."""
    for _ in range(_MOST_ROUNDS):
        entries = _entries(root, "")
        if not entries:
            root.delete_root()
            return
        _remove_versions(root)  # a commit may have landed meanwhile
        for entry in entries:
            if entry.is_directory:
                root.delete_directory(entry.name)
            else:
                root.delete_file(entry.name)
    raise StorageError("the dataset cannot be removed, because other writers keep writing to it")


def _has_versions(storage: Storage) -> bool:
    try:
        latest_manifest(storage)
    except DatasetNotFoundError:
        return False
    except CorruptFileError:
        pass
    return True


def _remove_versions(storage: Storage) -> None:
    """Remove all manifests, the newest one last."""
    newest = ""
    # If no version can be opened, the order does not matter.
    with suppress(DatasetNotFoundError, CorruptFileError):
        newest = latest_manifest(storage)[1].rpartition("/")[2]
    others = [entry.name for entry in _entries(storage, VERSIONS) if not entry.is_directory]
    storage.delete_files([f"{VERSIONS}/{name}" for name in others if name != newest])
    # If a manifest store has a row of a version, readers look for the manifest that the row names.
    forget_table(storage)
    storage.delete_directory(VERSIONS)


def _entries(storage: Storage, path: str) -> list[Entry]:
    try:
        return storage.list_directory(path)
    except FileMissingError:
        return []
