"""Lookup of the version that a transaction made, so that a repeated commit has one effect.

The manifest of a version contains the id of its transaction. The name of a transaction file contains the id
and the read version. The transaction made one of the versions after its read version, or, for a clone, a
version with the same number.

Source: docs/format.md, "Two writers".
"""

from collections.abc import Collection

from lance_core.commit.file_changes import look_at_later
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
    """Return the version that a transaction made; None if it made none, or if that version was cleaned up.

    If the transaction left a file, only manifests from its read version on are read. Otherwise the lookup
    costs a listing. If the table has no transaction files, all manifests are read, newest first.

    Args:
        storage: storage of the table.
        transaction_id: id of the transaction, a UUID.
        operations: operations that the caller's change may be, as field names of the transaction message. The
            id of another operation is refused, because returning its version would lose the caller's change.
            None skips this check.

    Raises:
        InvalidInputError: the id is not a UUID, or another operation has used it.
        CommitUnknownError: the version may be outside the history, see `require_in_history`.
        LanceError: the storage failed, or a manifest cannot be read.
    """
    manifest = _find_committed(storage, transaction_uuid(transaction_id))
    if manifest is not None and operations is not None:
        try:
            transaction = read_transaction(storage, manifest)
        except CommitConflictError:  # the transaction file was removed, so the operation is unknown
            return manifest
        require_operation(transaction, operations, manifest.version)
    return manifest


def require_operation(committed: Transaction, operations: Collection[str], version: int) -> None:
    """Refuse the id of a transaction if another operation has used it to make a version.

    Raises:
        InvalidInputError: the operation of `committed` is not in `operations`.
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
    """Return the read versions in the names of the transaction's files. Each rebase may add one."""
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
        except VersionNotFoundError:  # cleaned up after it was listed
            continue
        if manifest.transaction_uuid == transaction_id:
            _require_in_history(storage, manifest)
            return manifest
    return None


def _require_in_history(storage: Storage, manifest: Manifest) -> None:
    def read_before() -> Manifest | None:
        return read_manifest(storage, manifest.version - 1) if manifest.version > 1 else None

    look = look_at_later(storage, manifest, read_before)
    try:
        require_in_history(storage, manifest.version, manifest.name, look)
    except PutUnknownError as error:
        raise CommitUnknownError(
            f"it is unknown whether version {manifest.version} is part of the history"
        ) from error
