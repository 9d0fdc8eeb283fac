"""Finding out whether a transaction was committed, by its id: so that a repeated commit happens once.

A version is made by one transaction, whose id is in its manifest. The name of a transaction file tells the
id, too, and the version that the transaction was made on: its own version is one of those after it, or, for a
clone, that number itself.
Source: docs/format.md, "Two writers".
"""

from collections.abc import Collection

from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    DatasetNotFoundError,
    FileMissingError,
    InvalidInputError,
    PutUnknownError,
    VersionNotFoundError,
)
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table import feature_flags
from lance_core.table.manifest import Manifest
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import DIRECTORY, read_transaction, transaction_uuid
from lance_core.table.versions import list_versions, require_in_history


def find_committed(
    storage: Storage, transaction_id: str, operations: Collection[str] | None = None
) -> Manifest | None:
    """Return the version that a transaction made; None if it made none, or one that was cleaned up.

    Who repeats a change names the `operations` that it may be in a transaction (fields of its message). An id
    that another change was given is refused then: to answer with that one's version would lose this change.

    Costs a listing where the transaction left no file; else manifests are read from the version on that it
    was made on. A table without transaction files has all its manifests read, newest first.

    Raises:
        InvalidInputError: the id is no UUID, or that of another operation.
        CommitUnknownError: it made a version that newer ones may know nothing of, see `require_in_history`.
        LanceError: the storage failed, or a manifest cannot be read.
    """
    manifest = _find_committed(storage, transaction_uuid(transaction_id))
    if manifest is not None and operations is not None:
        try:
            transaction = read_transaction(storage, manifest)
        except CommitConflictError:  # its file was removed: nobody knows
            return manifest
        require_operation(transaction, operations, manifest.version)
    return manifest


def require_operation(committed: Transaction, operations: Collection[str], version: int) -> None:
    """Refuse the id of a transaction that made a version by another operation.

    Raises:
        InvalidInputError: it is none of `operations`.
    """
    operation = str(committed.WhichOneof("operation"))
    if operation not in operations:
        raise InvalidInputError(
            f"transaction id {committed.uuid} was used before",
            expected=f"the id of a transaction of the operation {' or '.join(sorted(operations))}",
            found=f"{operation}, which made version {version}",
        )


def _find_committed(storage: Storage, uuid: str) -> Manifest | None:
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
    """Return the versions that the transaction was made on, or moved to: one per file of it."""
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
