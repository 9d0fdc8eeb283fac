"""Finding out whether a transaction was committed, by its id: so that a repeated commit happens once.

A version is made by one transaction, whose id is in its manifest. The name of a transaction file tells the
id, too, and the version that the transaction was made on: its own version is one of those after it, or, for a
clone, that number itself.
Source: Lance table format, "Transactions"; docs/format.md.
"""

from lance_core.errors import (
    CommitUnknownError,
    DatasetNotFoundError,
    FileMissingError,
    PutUnknownError,
    VersionNotFoundError,
)
from lance_core.storage import Storage
from lance_core.table import feature_flags
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import DIRECTORY, transaction_uuid
from lance_core.table.versions import list_versions, require_in_history


def find_committed(storage: Storage, transaction_id: str) -> Manifest | None:
    """The version that a transaction made; None if it made none, or one that was cleaned up.

    Costs a listing where the transaction left no file; else manifests are read from the version on that it
    was made on. A table without transaction files has all its manifests read, newest first.

    Raises:
        InvalidInputError: the id is no UUID.
        CommitUnknownError: it made a version that newer ones may know nothing of, see `require_in_history`.
        LanceError: the storage failed, or a manifest cannot be read.
    """
    uuid = transaction_uuid(transaction_id)
    try:
        versions = list_versions(storage)
    except DatasetNotFoundError:
        return None
    made_on = _read_versions(storage, uuid)
    if made_on:
        return _find(storage, [version for version in versions if version >= min(made_on)], uuid)
    newest = read_manifest(storage, versions[-1])
    if newest.writer_feature_flags & feature_flags.INLINE_TRANSACTIONS_ONLY:
        return _find(storage, list(reversed(versions)), uuid)
    return newest if newest.transaction_uuid == uuid else None


def _read_versions(storage: Storage, transaction_id: str) -> list[int]:
    """The versions that the transaction was made on, or moved to: one per file of it."""
    suffix = f"-{transaction_id}.txn"
    try:
        names = storage.list_names(DIRECTORY)
    except FileMissingError:
        return []
    numbers = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return [int(number) for number in numbers if number.isdigit()]


def _find(storage: Storage, versions: list[int], transaction_id: str) -> Manifest | None:
    for version in versions:
        try:
            manifest = read_manifest(storage, version)
        except VersionNotFoundError:  # cleaned up since it was listed
            continue
        if manifest.transaction_uuid == transaction_id:
            _require_in_history(storage, manifest)
            return manifest
    return None


def _require_in_history(storage: Storage, manifest: Manifest) -> None:
    try:
        require_in_history(storage, manifest.version, manifest.name)
    except PutUnknownError as error:
        raise CommitUnknownError(
            f"nobody can say whether version {manifest.version} is part of the history"
        ) from error
