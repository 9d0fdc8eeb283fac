"""Renaming the manifests of an old table, so that the newest version is listed first.

The manifests are renamed from the newest to the oldest. If that is interrupted, the newer versions have names
of the second scheme and the older ones still have names of the first. Readers and writers accept such a table
(see `lance_core.table.versions`), and the renaming can be repeated. A manifest is copied before its first
name goes, so no version is ever missing.

No writer may run meanwhile: one that listed the versions before would put the next version under a name of
the first scheme, beside another writer's manifest for the same version.

Source: docs/format.md, "Versions".
"""

from lance_core.errors import AlreadyExistsError, CorruptFileError, UnsupportedFeatureError
from lance_core.storage import Storage
from lance_core.table.versions import VERSIONS, first_scheme_versions, version_path


def rename_manifests(storage: Storage) -> None:
    """Give all manifests of a table, or of a branch, names of the second scheme. Does nothing if they have.

    Raises:
        DatasetNotFoundError: there is no table.
        CorruptFileError: a version has two manifests that differ.
        UnsupportedFeatureError: a manifest store knows the manifests by their names.
        StorageError: the storage failed. What was renamed stays; repeat the call.
    """
    versions = first_scheme_versions(storage)
    if not versions:
        return
    if storage.manifest_store is not None:
        raise UnsupportedFeatureError("renaming manifests that a manifest store names")
    for version in sorted(versions, reverse=True):
        old, new = version_path(version, False), version_path(version, True)
        data = storage.read_file(old)
        try:
            storage.put_if_absent(new, data)
        except AlreadyExistsError:  # left by an interrupted call
            if storage.read_file(new) != data:
                raise CorruptFileError(
                    "version has two manifests", file=new, expected="one", found=old
                ) from None
        storage.delete_file(old)
    storage.sync_directory(VERSIONS)
