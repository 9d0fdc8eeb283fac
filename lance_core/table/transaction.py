"""Transactions: what one version changed. Each is a file, and is repeated in the manifest of its version.

A writer that started on an older version reads the transactions of the versions since. They tell whether its
own transaction can still be applied.

Source: docs/format.md, "Writing a version".
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID, uuid4

import pyroaring
from google.protobuf.message import DecodeError

from lance_core.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
)
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.schema import Schema
from lance_core.storage import Storage
from lance_core.table.deletions import Offsets
from lance_core.table.manifest import Manifest

DIRECTORY = "_transactions"

COMMIT_MESSAGE = "__lance_commit_message"
"""Key of the transaction property with the commit message."""


def new_transaction(
    read_version: int,
    *,
    uuid: str | None = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Transaction:
    """Return a transaction without an operation.

    Args:
        read_version: version on which the transaction is based; 0 for a new table.
        uuid: id of the transaction, see `transaction_uuid`; None means a new id.
        message: commit message. It replaces the property with the key of commit messages.
        properties: properties of the transaction.

    Raises:
        InvalidInputError: the id is not a UUID.
    """
    noted = dict(properties or {})
    if message is not None:
        noted[COMMIT_MESSAGE] = message
    number = transaction_uuid(uuid) if uuid is not None else str(uuid4())
    return Transaction(read_version=read_version, uuid=number, transaction_properties=noted)


def transaction_uuid(text: str) -> str:
    """Return the id of a transaction as its file name contains it: lower case, with hyphens.

    Raises:
        InvalidInputError: the text is not a UUID.
    """
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidInputError("transaction id", expected="a UUID", found=repr(text)) from None


def append(transaction: Transaction, fragments: Iterable[table_pb2.DataFragment]) -> Transaction:
    """Set the operation to an append. The fragments get their ids when the transaction is committed."""
    transaction.append.SetInParent()
    transaction.append.fragments.extend(fragments)
    return transaction


def overwrite(
    transaction: Transaction,
    fragments: Iterable[table_pb2.DataFragment],
    schema: Schema,
    config: Mapping[str, str] | None = None,
    initial_bases: Iterable[table_pb2.BasePath] = (),
) -> Transaction:
    """Set the operation to an overwrite: it replaces all fragments and the schema, and creates new tables.

    `config` is added to the settings of the table. Only a new table can get `initial_bases`.
    """
    operation = transaction.overwrite
    _replace_content(operation, fragments, schema)
    for key, text in (config or {}).items():
        operation.config_upsert_values[key] = text
    operation.initial_bases.extend(initial_bases)
    return transaction


def delete(
    transaction: Transaction,
    updated: Iterable[table_pb2.DataFragment],
    removed_ids: Iterable[int] = (),
    predicate: str = "",
) -> Transaction:
    """Set the operation to a delete of rows.

    Args:
        transaction: a transaction without an operation.
        updated: fragments with new deletion files.
        removed_ids: ids of fragments without remaining rows.
        predicate: the filter of the caller, as a note.
    """
    operation = transaction.delete
    operation.SetInParent()
    operation.updated_fragments.extend(updated)
    operation.deleted_fragment_ids.extend(removed_ids)
    operation.predicate = predicate
    return transaction


def update(
    transaction: Transaction,
    *,
    updated: Iterable[table_pb2.DataFragment] = (),
    removed_ids: Iterable[int] = (),
    new: Iterable[table_pb2.DataFragment] = (),
    fields_modified: Iterable[int] = (),
    fields_for_preserving_frag_bitmap: Iterable[int] = (),
    rewrites_columns: bool = False,
    updated_offsets: Mapping[int, Offsets] | None = None,
) -> Transaction:
    """Set the operation to an update of rows, which moves rows to new fragments or rewrites columns in place.

    Args:
        transaction: a transaction without an operation.
        updated: fragments with new deletion files, or with new data files.
        removed_ids: ids of fragments without remaining rows.
        new: fragments without ids. With stable row ids they contain the ids of the moved rows, which come
            first in each fragment. Inserted rows get their ids when the transaction is committed, and all
            rows their versions.
        fields_modified: fields with other values in `updated`. Indices on these fields no longer cover these
            fragments.
        fields_for_preserving_frag_bitmap: fields with other values in `new`, if all rows of `new` were moved.
            Indices on other fields may cover the new fragments.
        rewrites_columns: whether columns were rewritten in place instead of moving rows.
        updated_offsets: by fragment id, the rows whose values changed in place. A fragment that is left out
            changed in all rows.
    """
    operation = transaction.update
    operation.SetInParent()
    operation.updated_fragments.extend(updated)
    operation.removed_fragment_ids.extend(removed_ids)
    operation.new_fragments.extend(new)
    operation.fields_modified.extend(fields_modified)
    operation.fields_for_preserving_frag_bitmap.extend(fields_for_preserving_frag_bitmap)
    if rewrites_columns:
        operation.update_mode = Transaction.Update.REWRITE_COLUMNS
    for fragment_id, offsets in (updated_offsets or {}).items():
        bitmap = pyroaring.BitMap(offsets).serialize()
        operation.updated_fragment_offset_bitmaps[fragment_id] = bytes(bitmap)
    return transaction


def merge(
    transaction: Transaction,
    fragments: Iterable[table_pb2.DataFragment],
    schema: Schema,
    *,
    preserves_nullability: bool = False,
) -> Transaction:
    """Set the operation to a merge, which replaces the schema and all fragments after columns were added or
    changed.

    `preserves_nullability` says that no column became required which rows appended meanwhile may lack.
    """
    operation = transaction.merge
    _replace_content(operation, fragments, schema)
    operation.preserves_nullability = preserves_nullability
    return transaction


def project(transaction: Transaction, schema: Schema, *, preserves_nullability: bool = False) -> Transaction:
    """Set the operation to a projection, which replaces the schema by a schema without new columns; see
    `merge`.
    """
    operation = transaction.project
    operation.SetInParent()
    operation.schema.extend(schema.messages)
    operation.preserves_nullability = preserves_nullability
    return transaction


FragmentGroup = tuple[Sequence[table_pb2.DataFragment], Sequence[table_pb2.DataFragment]]
"""Old fragments, and the new fragments with their rows in the same order."""


def rewrite(transaction: Transaction, groups: Iterable[FragmentGroup]) -> Transaction:
    """Set the operation to a rewrite, which replaces fragments by other fragments with the same rows.

    New fragments have reserved ids. A fragment with id 0 gets its id when the transaction is committed. With
    stable row ids, new fragments contain the sequences of their rows.
    """
    transaction.rewrite.SetInParent()
    for old, new in groups:
        group = transaction.rewrite.groups.add()
        group.old_fragments.extend(old)
        group.new_fragments.extend(new)
    return transaction


def reserve_fragments(transaction: Transaction, count: int) -> Transaction:
    """Set the operation to a reservation of `count` fragment ids."""
    transaction.reserve_fragments.SetInParent()
    transaction.reserve_fragments.num_fragments = count
    return transaction


def restore(transaction: Transaction, version: int) -> Transaction:
    """Set the operation to restoring the content of an older version."""
    transaction.restore.SetInParent()
    transaction.restore.version = version
    return transaction


def update_map(entries: Mapping[str, str | None], *, replace: bool = False) -> Transaction.UpdateMap:
    """Return a change of a map: keys with their new values, or None to remove a key.

    With `replace`, all other keys are removed.
    """
    changes = Transaction.UpdateMap(replace=replace)
    for key, text in entries.items():
        changes.update_entries.add(key=key, value=text)
    return changes


def update_config(
    transaction: Transaction,
    *,
    config: Transaction.UpdateMap | None = None,
    table_metadata: Transaction.UpdateMap | None = None,
    schema_metadata: Transaction.UpdateMap | None = None,
    field_metadata: Mapping[int, Transaction.UpdateMap] | None = None,
) -> Transaction:
    """Set the operation to a change of settings and metadata. `field_metadata` is by field id."""
    operation = transaction.update_config
    operation.SetInParent()
    if config is not None:
        operation.config_updates.CopyFrom(config)
    if table_metadata is not None:
        operation.table_metadata_updates.CopyFrom(table_metadata)
    if schema_metadata is not None:
        operation.schema_metadata_updates.CopyFrom(schema_metadata)
    for field_id, changes in (field_metadata or {}).items():
        operation.field_metadata_updates[field_id].CopyFrom(changes)
    return transaction


def data_replacement(
    transaction: Transaction, replacements: Iterable[tuple[int, table_pb2.DataFile]]
) -> Transaction:
    """Set the operation to replacing data files. Each new file replaces the file with the same fields in its
    fragment.

    `replacements` are pairs of a fragment id and a new file.
    """
    transaction.data_replacement.SetInParent()
    for fragment_id, new_file in replacements:
        transaction.data_replacement.replacements.add(fragment_id=fragment_id, new_file=new_file)
    return transaction


def create_index(
    transaction: Transaction,
    new: Iterable[table_pb2.IndexMetadata] = (),
    removed: Iterable[table_pb2.IndexMetadata] = (),
) -> Transaction:
    """Set the operation to adding and removing index segments."""
    transaction.create_index.SetInParent()
    transaction.create_index.new_indices.extend(new)
    transaction.create_index.removed_indices.extend(removed)
    return transaction


def update_bases(transaction: Transaction, bases: Iterable[table_pb2.BasePath]) -> Transaction:
    """Set the operation to adding base paths. A base path with id 0 gets its id when the transaction is
    committed.
    """
    transaction.update_bases.SetInParent()
    transaction.update_bases.new_bases.extend(bases)
    return transaction


def clone(
    transaction: Transaction,
    version: int,
    path: str,
    *,
    ref_name: str | None = None,
    branch_name: str | None = None,
    is_shallow: bool = True,
) -> Transaction:
    """Set the operation to a clone: a new table that begins with a version of another table.

    Args:
        transaction: a transaction without an operation, based on `version`.
        version: version of the source table.
        path: absolute path or URL of the source table.
        ref_name: reference by which the caller named the version.
        branch_name: name of the branch that the new table is.
        is_shallow: the new table uses the files of the other table, and has no copies of them.
    """
    operation = transaction.clone
    operation.is_shallow, operation.ref_version, operation.ref_path = is_shallow, version, path
    if ref_name is not None:
        operation.ref_name = ref_name
    if branch_name is not None:
        operation.branch_name = branch_name
    return transaction


def file_name(transaction: Transaction) -> str:
    """Return the name of the transaction's file in `_transactions/`."""
    return f"{transaction.read_version}-{transaction.uuid}.txn"


def write_transaction(storage: Storage, name: str, serialized: bytes, *, sync: bool) -> bool:
    """Write the file of a transaction; return whether no file had its name before.

    An existing file belongs to a commit with the same id, which died or runs elsewhere. That commit relies on
    the file, so the caller must not remove it.
    """
    path = f"{DIRECTORY}/{name}"
    try:
        storage.put_if_absent(path, serialized, sync=sync)
    except AlreadyExistsError:
        if storage.read_file(path) != serialized:
            storage.put(path, serialized, sync=sync)
        return False
    return True


def read_transaction(storage: Storage, manifest: Manifest) -> Transaction:
    """Return the transaction that made a version: the copy in the manifest, otherwise the transaction file.

    Raises:
        CommitConflictError: neither exists, so it is unknown what the version changed.
        CorruptFileError: the transaction does not decode.
        StorageError: the storage failed.
    """
    name, data = manifest.name, manifest.transaction_section
    if data is None:
        name = f"{DIRECTORY}/{manifest.message.transaction_file}"
        try:
            data = storage.read_file(name) if manifest.message.transaction_file else None
        except FileMissingError:
            data = None
    if data is None:
        raise CommitConflictError(f"version {manifest.version} has no transaction", retryable=False)
    try:
        return Transaction.FromString(data)
    except DecodeError:
        raise CorruptFileError("transaction does not decode", file=name) from None


def _replace_content(
    operation: Transaction.Overwrite | Transaction.Merge,
    fragments: Iterable[table_pb2.DataFragment],
    schema: Schema,
) -> None:
    """Set the fragments and the schema that an operation gives the table."""
    operation.SetInParent()
    operation.fragments.extend(fragments)
    operation.schema.extend(schema.messages)
    for key, data in schema.raw_metadata.items():
        operation.schema_metadata[key] = data
