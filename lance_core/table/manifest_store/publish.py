"""The four steps of a commit through a manifest store, and finishing the steps of writers that died."""

import posixpath
import re
from contextlib import suppress
from uuid import uuid4

from lance_core.errors import (
    AlreadyExistsError,
    CorruptFileError,
    FileMissingError,
    PutUnknownError,
    StorageError,
)
from lance_core.storage import Storage
from lance_core.table.manifest_store.store import ManifestRow, ManifestStore

_STAGED = re.compile(r"(.+\.manifest)-[^/]+")


def publish_in_store(
    store: ManifestStore, storage: Storage, version: int, path: str, data: bytes, *, sync: bool
) -> None:
    """Make a version whose manifest is `data`; its final path is `path`.

    Raises:
        AlreadyExistsError: another writer made this version.
        PutUnknownError: the store did not answer, so the version may or may not exist.
        StorageError: the version was not made.
    """
    if storage.exists(path):
        # The version exists, perhaps made by a writer that does not use the store. Never overwrite it.
        raise AlreadyExistsError("file exists", file=path)
    place = store.place(storage)
    staged = f"{path}-{uuid4()}"
    row = ManifestRow(version, posixpath.join(place, staged), len(data))
    storage.put(staged, data, sync=sync)
    try:
        store.insert(place, row)
    except (AlreadyExistsError, PutUnknownError) as error:
        owner = _is_ours(store, storage, place, row, data)
        if owner is None:
            raise PutUnknownError("the manifest store did not say whether the version was made") from error
        if not owner:
            _remove(storage, staged)
            raise AlreadyExistsError("version exists in the manifest store", file=path) from None
    except StorageError:
        _remove(storage, staged)
        raise
    # The version exists. If a step fails from here on, the next reader or writer finishes it.
    with suppress(StorageError):
        _finish(store, storage, place, row, data, sync=sync)


def latest_in_store(store: ManifestStore, storage: Storage) -> tuple[int, str] | None:
    """Return the newest version and the path of its manifest; None if the store has no row of the table.

    Raises:
        CorruptFileError: the row names a file that does not exist.
    """
    place = store.place(storage)
    row = store.latest(place)
    return None if row is None else (row.version, _resolve(store, storage, place, row))


def path_in_store(store: ManifestStore, storage: Storage, version: int) -> str | None:
    """Return the path of the manifest of a version; None if the store has no row of the version.

    Errors are those of `latest_in_store`.
    """
    place = store.place(storage)
    row = store.get(place, version)
    return None if row is None else _resolve(store, storage, place, row)


def _resolve(store: ManifestStore, storage: Storage, place: str, row: ManifestRow) -> str:
    """Return the path of a manifest, after finishing the steps that its writer left open."""
    path = _relative(place, row)
    match = _STAGED.fullmatch(path)
    if match is None:
        return path
    final = match[1]
    try:
        data = storage.read_file(path)
    except FileMissingError:  # another reader finished the steps
        if storage.exists(final):
            return final
        raise CorruptFileError(
            "manifest of a version in the manifest store is missing", file=final, found=path
        ) from None
    try:
        _finish(store, storage, place, row, data, sync=True)
    except StorageError:
        # This reader may lack the permission to write. The version exists all the same.
        return final if storage.exists(final) else path
    return final


def _finish(
    store: ManifestStore, storage: Storage, place: str, row: ManifestRow, data: bytes, *, sync: bool
) -> None:
    """Do steps 3 and 4. Several processes may do them at once, because they write the same bytes."""
    staged = _relative(place, row)
    match = _STAGED.fullmatch(staged)
    assert match is not None, staged
    storage.put(match[1], data, sync=sync)
    store.update(place, row._replace(path=posixpath.join(place, match[1]), size=len(data)))
    storage.delete_file(staged)


def _is_ours(
    store: ManifestStore, storage: Storage, place: str, row: ManifestRow, data: bytes
) -> bool | None:
    """Return whether this writer made the version; None if that cannot be determined, or if there is no row
    yet.
    """
    try:
        found = store.get(place, row.version)
        if found is None or found.path == row.path:
            return None if found is None else True
        path = _relative(place, found)
        # A reader may have finished our steps. A row with another staged name belongs to another writer.
        return not _STAGED.fullmatch(path) and storage.read_file(path) == data
    except (StorageError, CorruptFileError):
        return None


def _relative(place: str, row: ManifestRow) -> str:
    path = row.path.removeprefix(f"{place}/") if place else row.path
    if (place and path == row.path) or not path.startswith("_versions/"):
        raise CorruptFileError(
            "manifest store names a file outside the table", expected=f"{place}/_versions/...", found=row.path
        )
    return path


def _remove(storage: Storage, path: str) -> None:
    with suppress(StorageError):
        storage.delete_file(path)
