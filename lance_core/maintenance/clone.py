"""Shallow clones and branches: tables that begin with the files of a version of another table.

The first manifest of the new table is a copy of that version's manifest, with the same number. It refers to
every file of the other table through a base path. New files are written to the new table.

Source: docs/format.md, "Tags and branches".
"""

from dataclasses import replace

from lance_core.errors import AlreadyExistsError, CommitUnknownError, DatasetExistsError, PutUnknownError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table import feature_flags
from lance_core.table.manifest import parse_manifest, serialize_manifest
from lance_core.table.manifest_dictionaries import dictionaries_of, place_dictionaries
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import clone, file_name, new_transaction, write_transaction
from lance_core.table.versions import list_manifests, publish_manifest
from lance_core.table.writer_version import sign

_POSITIONS = (
    "version_aux_data",
    "index_section",
    "transaction_section",
    "transaction_section_deprecated",
)


def clone_table(
    source: Snapshot,
    target: Storage,
    *,
    branch: str | None = None,
    transaction_id: str | None = None,
    sync: bool = True,
) -> Snapshot:
    """Create a table in `target` from a version of another table, without copying data.

    Args:
        source: version to begin with. A clone breaks if the files of this version are cleaned up.
        target: storage of the new table, which must be empty.
        branch: name of the branch that the new table is; None for an independent table.
        transaction_id: id of the transaction; None means a new id.
        sync: make the table durable before returning.

    Raises:
        DatasetExistsError: the target has a table.
        UnsupportedFeatureError: the table has features that this package does not write.
        CommitUnknownError: the storage did not answer, so the table may or may not exist.
        StorageError: the table was not created.
    """
    check_clonable(source, target)
    manifest = source.manifest
    transaction = clone(
        new_transaction(manifest.version, uuid=transaction_id),
        manifest.version,
        source.storage.uri,
        ref_name=manifest.branch,
        branch_name=branch,
    )
    message, index_section = _first_manifest(source, branch)
    return publish_clone(source, target, message, index_section, transaction, sync=sync)


def check_clonable(source: Snapshot, target: Storage) -> None:
    """Check that a version can be cloned, and that there is room for the clone.

    Raises:
        DatasetExistsError: the target has a table.
        UnsupportedFeatureError: the table has features that this package does not write.
    """
    manifest = source.manifest
    feature_flags.check_writable(manifest.reader_feature_flags, manifest.writer_feature_flags, manifest.name)
    if list_manifests(target) is not None:
        raise DatasetExistsError("there is a dataset at the target")


def publish_clone(
    source: Snapshot,
    target: Storage,
    message: table_pb2.Manifest,
    index_section: bytes | None,
    transaction: Transaction,
    *,
    sync: bool,
) -> Snapshot:
    """Publish the first manifest of a clone, and return the clone; errors are those of `clone_table`."""
    manifest = source.manifest
    serialized = transaction.SerializeToString()
    if not message.writer_feature_flags & feature_flags.INLINE_TRANSACTIONS_ONLY:
        message.transaction_file = file_name(transaction)
        write_transaction(target, message.transaction_file, serialized, sync=sync)
    head = place_dictionaries(message, dictionaries_of(manifest))
    data = serialize_manifest(message, serialized, index_section, head)
    try:
        path = publish_manifest(target, message.version, data, True, sync).path
    except AlreadyExistsError:
        raise DatasetExistsError("another writer created a dataset at the target meanwhile") from None
    except PutUnknownError as error:
        raise CommitUnknownError("the storage did not answer: the dataset may or may not exist") from error
    return replace(source, storage=target, manifest=parse_manifest(data, path, target.read_range))


def _first_manifest(source: Snapshot, branch: str | None) -> tuple[table_pb2.Manifest, bytes | None]:
    message = copied_manifest(source)
    if branch is not None:
        message.branch = branch
    base_id = max((base.id for base in message.base_paths), default=-1) + 1
    base = message.base_paths.add(id=base_id, is_dataset_root=True, path=source.storage.uri)
    if source.manifest.branch is not None:
        base.name = source.manifest.branch
    for fragment in message.fragments:
        for file in fragment.files:
            if not file.HasField("base_id"):
                file.base_id = base_id
        if fragment.HasField("deletion_file") and not fragment.deletion_file.HasField("base_id"):
            fragment.deletion_file.base_id = base_id
    message.reader_feature_flags |= feature_flags.BASE_PATHS
    message.writer_feature_flags |= feature_flags.BASE_PATHS
    sign(message)
    return message, _with_base(source.manifest.index_section, base_id)


def copied_manifest(source: Snapshot) -> table_pb2.Manifest:
    """Return the manifest of a version, without what holds for its own table alone."""
    message = table_pb2.Manifest()
    message.CopyFrom(source.manifest.message)
    for position in _POSITIONS:
        message.ClearField(position)
    message.ClearField("transaction_file")
    message.ClearField("branch")
    message.tag = ""
    return message


def _with_base(index_section: bytes | None, base_id: int) -> bytes | None:
    if index_section is None:
        return None
    section = table_pb2.IndexSection.FromString(index_section)
    for index in section.indices:
        if not index.HasField("base_id"):
            index.base_id = base_id
    return section.SerializeToString()
