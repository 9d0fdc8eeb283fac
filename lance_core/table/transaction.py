"""Transactions: what one version changed. Each is a file, and repeated in the manifest of its version.

Writers that started on an older version read the transactions of the versions since, to find out whether
their own still makes sense. Source: docs/format.md, "Writing a version".
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

_MESSAGE_PROPERTY = "__lance_commit_message"


def new_transaction(
    read_version: int,
    *,
    uuid: str | None = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Transaction:
    """Return a transaction that lacks its operation.

    Args:
        read_version: the version it was made on; 0 for a new table.
        uuid: its id, a new one if not given; see `transaction_uuid`.
        message: what the author says about it; wins over a property of that name.
        properties: what else is noted on it.

    Raises:
        InvalidInputError: the id is no UUID.
    """
    noted = dict(properties or {})
    if message is not None:
        noted[_MESSAGE_PROPERTY] = message
    number = transaction_uuid(uuid) if uuid is not None else str(uuid4())
    return Transaction(read_version=read_version, uuid=number, transaction_properties=noted)


def transaction_uuid(text: str) -> str:
    """Return the id of a transaction in the form that names its file: lower case, with hyphens.

    Raises:
        InvalidInputError: it is no UUID.
    """
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidInputError("transaction id", expected="a UUID", found=repr(text)) from None


def append(transaction: Transaction, fragments: Iterable[table_pb2.DataFragment]) -> Transaction:
    """Let the transaction add fragments, which get their ids when it is committed."""
    transaction.append.SetInParent()
    transaction.append.fragments.extend(fragments)
    return transaction


def overwrite(
    transaction: Transaction,
    fragments: Iterable[table_pb2.DataFragment],
    schema: Schema,
    config: Mapping[str, str] | None = None,
) -> Transaction:
    """Let the transaction replace all fragments and the schema; also how tables begin.

    `config` is added to the settings of the table.
    """
    operation = transaction.overwrite
    operation.SetInParent()
    operation.fragments.extend(fragments)
    operation.schema.extend(schema.messages)
    for key, data in schema.raw_metadata.items():
        operation.schema_metadata[key] = data
    for key, text in (config or {}).items():
        operation.config_upsert_values[key] = text
    return transaction


def delete(
    transaction: Transaction,
    updated: Iterable[table_pb2.DataFragment],
    removed_ids: Iterable[int] = (),
    predicate: str = "",
) -> Transaction:
    """Let the transaction delete rows.

    Args:
        transaction: lacks its operation.
        updated: fragments with their new deletion files.
        removed_ids: fragments of which no row is left.
        predicate: what the author asked for.
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
    """Let the transaction change rows: those moved to new fragments, or columns in place.

    Args:
        transaction: lacks its operation.
        updated: fragments with new deletion files, or with new data files.
        removed_ids: fragments of which no row is left.
        new: fragments without ids. With stable row ids they carry the ids of moved rows, which come first;
            inserted rows get theirs when it is committed. Versions of rows are filled in there, too.
        fields_modified: fields with other values in `updated`; indices on them forget these fragments.
        fields_for_preserving_frag_bitmap: fields with other values in `new`, where all rows were moved:
            indices on other fields may go on to cover them.
        rewrites_columns: whether columns were written anew in place of rows.
        updated_offsets: by fragment the rows whose values changed in place; all of the fragment if not given.
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
    """Let the transaction replace the schema and all fragments: columns were added or changed.

    `preserves_nullability`: no column came to need a value that rows appended meanwhile may lack.
    """
    operation = transaction.merge
    operation.SetInParent()
    operation.fragments.extend(fragments)
    operation.schema.extend(schema.messages)
    for key, data in schema.raw_metadata.items():
        operation.schema_metadata[key] = data
    operation.preserves_nullability = preserves_nullability
    return transaction


def project(transaction: Transaction, schema: Schema, *, preserves_nullability: bool = False) -> Transaction:
    """Let the transaction replace the schema by one without new columns; see `merge`."""
    operation = transaction.project
    operation.SetInParent()
    operation.schema.extend(schema.messages)
    operation.preserves_nullability = preserves_nullability
    return transaction


FragmentGroup = tuple[Sequence[table_pb2.DataFragment], Sequence[table_pb2.DataFragment]]
"""Fragments and those that have their rows now, in the same order."""


def rewrite(transaction: Transaction, groups: Iterable[FragmentGroup]) -> Transaction:
    """Let the transaction put fragments in the place of others with the same rows.

    The new ones carry ids that were reserved; those with id 0 get one when it is committed. With stable row
    ids they carry the sequences of their rows.
    """
    transaction.rewrite.SetInParent()
    for old, new in groups:
        group = transaction.rewrite.groups.add()
        group.old_fragments.extend(old)
        group.new_fragments.extend(new)
    return transaction


def reserve_fragments(transaction: Transaction, count: int) -> Transaction:
    """Let the transaction set fragment ids aside."""
    transaction.reserve_fragments.SetInParent()
    transaction.reserve_fragments.num_fragments = count
    return transaction


def restore(transaction: Transaction, version: int) -> Transaction:
    """Let the transaction go back to what an older version was."""
    transaction.restore.SetInParent()
    transaction.restore.version = version
    return transaction


def update_map(entries: Mapping[str, str | None], *, replace: bool = False) -> Transaction.UpdateMap:
    """Changes of a map: keys with their new values, None to remove a key.

    `replace`: other keys are removed.
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
    """Let the transaction change settings and metadata; fields are named by their ids."""
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
    """Let the transaction put data files into fragments, by id, in the place of those of the same fields."""
    transaction.data_replacement.SetInParent()
    for fragment_id, new_file in replacements:
        transaction.data_replacement.replacements.add(fragment_id=fragment_id, new_file=new_file)
    return transaction


def create_index(
    transaction: Transaction,
    new: Iterable[table_pb2.IndexMetadata] = (),
    removed: Iterable[table_pb2.IndexMetadata] = (),
) -> Transaction:
    """Let the transaction add index segments, and remove others."""
    transaction.create_index.SetInParent()
    transaction.create_index.new_indices.extend(new)
    transaction.create_index.removed_indices.extend(removed)
    return transaction


def update_bases(transaction: Transaction, bases: Iterable[table_pb2.BasePath]) -> Transaction:
    """Let the transaction add base paths; those with id 0 get one when it is committed."""
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
) -> Transaction:
    """Let the transaction begin a table with the files of another one.

    Args:
        transaction: made on `version`; lacks its operation.
        version: of the other table.
        path: absolute path or URL of the other table.
        ref_name: the tag that it was asked for by.
        branch_name: the branch that the new table is.
    """
    operation = transaction.clone
    operation.is_shallow, operation.ref_version, operation.ref_path = True, version, path
    if ref_name is not None:
        operation.ref_name = ref_name
    if branch_name is not None:
        operation.branch_name = branch_name
    return transaction


def file_name(transaction: Transaction) -> str:
    """Return the name of its file in `_transactions/`."""
    return f"{transaction.read_version}-{transaction.uuid}.txn"


def write_transaction(storage: Storage, name: str, serialized: bytes, *, sync: bool) -> bool:
    """Write the file of a transaction; returns whether there was none of its name.

    One that is there is of a commit of the same id, which died or is under way elsewhere: it stands on the
    file then, so the file is not the caller's to remove.
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
    """Return the transaction that made a version: the one in the manifest if it is there, else its own
    file.

    Raises:
        CommitConflictError: the version was made without one, so that nobody knows what it changed.
        CorruptFileError: it does not decode.
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
