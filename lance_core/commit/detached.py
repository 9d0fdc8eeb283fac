"""Detached commits: versions that are not part of the history of a table.

A detached version has a random number with the highest bit set. It is never the latest version, it is opened
by its number only, and cleanup keeps it. It is made on the version that the transaction read, which may be
detached itself. There is nothing to be in conflict with.

Source: docs/format.md, "Versions".
"""

from random import SystemRandom

from lance_core.commit.next_manifest import TableSettings, dictionary_values, next_manifest
from lance_core.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    PutUnknownError,
    UnsupportedFeatureError,
)
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest, serialize_manifest, written_manifest
from lance_core.table.manifest_dictionaries import place_dictionaries
from lance_core.table.snapshot import counted_manifest, read_manifest
from lance_core.table.transaction import write_transaction
from lance_core.table.versions import DETACHED, list_manifests, publish_detached

_MAX_ATTEMPTS = 20
"""Numbers to draw. A number that is taken already is extremely unlikely."""


def commit_detached(
    storage: Storage, transaction: Transaction, settings: TableSettings | None = None, *, sync: bool = True
) -> Manifest:
    """Make a detached version from a transaction, whose data files are complete.

    Args:
        storage: storage of the table.
        transaction: transaction with an operation. Its read version may be detached.
        settings: settings of overwrites, see `TableSettings`.
        sync: make everything durable before the commit is acknowledged.

    Returns:
        The manifest of the detached version.

    Raises:
        UnsupportedFeatureError: there is no table, or it names its manifests by the first scheme, or a
            manifest store decides on its versions.
        VersionNotFoundError: there is no such read version.
        CommitUnknownError: the storage did not answer, so the version may or may not exist.
        LanceError: another error; nothing was committed.
    """
    _check_table(storage)
    settings = settings or TableSettings()

    def read(version: int) -> Manifest:
        return counted_manifest(storage, read_manifest(storage, version))

    current = read(transaction.read_version)
    message, index_section = next_manifest(current, transaction, settings, read_version=read)
    serialized = transaction.SerializeToString()
    if message.transaction_file:
        # The file stays if the commit fails: another commit may use the same id. Cleanup removes it.
        write_transaction(storage, message.transaction_file, serialized, sync=sync)
    head = place_dictionaries(message, dictionary_values(storage, current, transaction, settings))
    for _ in range(_MAX_ATTEMPTS):
        message.version = DETACHED | SystemRandom().getrandbits(63)
        data = serialize_manifest(message, serialized, index_section, head)
        try:
            path = publish_detached(storage, message.version, data, sync)
        except AlreadyExistsError:
            continue
        except PutUnknownError as error:
            raise CommitUnknownError(
                f"the storage did not answer: version {message.version} may or may not exist"
            ) from error
        return written_manifest(message, serialized, index_section, path, data, storage.read_range)
    raise CommitConflictError(f"{_MAX_ATTEMPTS} random version numbers were taken", retryable=True)


def _check_table(storage: Storage) -> None:
    listing = list_manifests(storage)
    if listing is None:
        raise UnsupportedFeatureError("a detached commit that creates a dataset")
    if not listing.is_inverted:
        raise UnsupportedFeatureError(
            "a detached commit to a dataset with v1 manifest paths; migrate_manifest_paths_v2 renames them"
        )
    if storage.manifest_store is not None:
        raise UnsupportedFeatureError("a detached commit beside a manifest store")
