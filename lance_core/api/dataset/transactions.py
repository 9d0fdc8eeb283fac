"""Transactions of versions: messages are turned into the objects of `lance_core.api.dataset.operations`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from lance_core.api.dataset.operations import Index, LanceOperation, Transaction
from lance_core.api.fragment.metadata import DataFile, FragmentMetadata
from lance_core.api.schema import LanceSchema
from lance_core.changes.rows.row_change import COUNTS
from lance_core.errors import CommitConflictError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction as TransactionMessage
from lance_core.schema import Schema
from lance_core.table.bases import DatasetBasePath
from lance_core.table.snapshot import Snapshot
from lance_core.table.transaction import read_transaction

_MODES = {TransactionMessage.Update.REWRITE_COLUMNS: "rewrite_columns"}


def transaction_of(snapshot: Snapshot) -> Transaction | None:
    """Return the transaction that made a version, None if there is none. Old libraries stored none."""
    try:
        return from_message(read_transaction(snapshot.storage, snapshot.manifest))
    except CommitConflictError:
        return None


def from_message(message: TransactionMessage) -> Transaction:
    """Return a transaction as callers hold it; operations that they cannot make are a `BaseOperation`."""
    kind = str(message.WhichOneof("operation"))
    read = _READERS.get(kind)
    operation = read(getattr(message, kind)) if read else LanceOperation.BaseOperation(kind)
    properties = dict(message.transaction_properties)
    properties.pop(COUNTS, None)  # for repetitions of the change, not for callers
    return Transaction(message.read_version, operation, message.uuid, properties)


def _append(message: TransactionMessage.Append) -> LanceOperation.Append:
    return LanceOperation.Append(_fragments(message.fragments))


def _overwrite(message: TransactionMessage.Overwrite) -> LanceOperation.Overwrite:
    bases = [DatasetBasePath.from_message(base) for base in message.initial_bases]
    schema = LanceSchema(Schema(message.schema, message.schema_metadata))
    return LanceOperation.Overwrite(schema, _fragments(message.fragments), bases or None)


def _delete(message: TransactionMessage.Delete) -> LanceOperation.Delete:
    deleted = list(message.deleted_fragment_ids)
    return LanceOperation.Delete(_fragments(message.updated_fragments), deleted, message.predicate)


def _update(message: TransactionMessage.Update) -> LanceOperation.Update:
    return LanceOperation.Update(
        removed_fragment_ids=list(message.removed_fragment_ids),
        updated_fragments=_fragments(message.updated_fragments),
        new_fragments=_fragments(message.new_fragments),
        fields_modified=list(message.fields_modified),
        fields_for_preserving_frag_bitmap=list(message.fields_for_preserving_frag_bitmap),
        update_mode=_MODES.get(message.update_mode, "rewrite_rows"),
        updated_fragment_offsets=dict(message.updated_fragment_offset_bitmaps) or None,
    )


def _merge(message: TransactionMessage.Merge) -> LanceOperation.Merge:
    schema = LanceSchema(Schema(message.schema, message.schema_metadata))
    return LanceOperation.Merge(_fragments(message.fragments), schema, message.preserves_nullability)


def _project(message: TransactionMessage.Project) -> LanceOperation.Project:
    return LanceOperation.Project(LanceSchema(Schema(message.schema, {})), message.preserves_nullability)


def _rewrite(message: TransactionMessage.Rewrite) -> LanceOperation.Rewrite:
    return LanceOperation.Rewrite(
        [
            LanceOperation.RewriteGroup(_fragments(group.old_fragments), _fragments(group.new_fragments))
            for group in message.groups
        ],
        [
            LanceOperation.RewrittenIndex(
                str(UUID(bytes=index.old_id.uuid)),
                str(UUID(bytes=index.new_id.uuid)),
                index.new_index_details.type_url,
                index.new_index_details.value,
                index.new_index_version,
            )
            for index in message.rewritten_indices
        ],
    )


def _restore(message: TransactionMessage.Restore) -> LanceOperation.Restore:
    return LanceOperation.Restore(message.version)


def _data_replacement(message: TransactionMessage.DataReplacement) -> LanceOperation.DataReplacement:
    return LanceOperation.DataReplacement(
        [
            LanceOperation.DataReplacementGroup(each.fragment_id, DataFile.from_message(each.new_file))
            for each in message.replacements
        ]
    )


def _create_index(message: TransactionMessage.CreateIndex) -> LanceOperation.CreateIndex:
    return LanceOperation.CreateIndex(
        [Index.from_message(index) for index in message.new_indices],
        [Index.from_message(index) for index in message.removed_indices],
    )


def _update_config(message: TransactionMessage.UpdateConfig) -> LanceOperation.UpdateConfig:
    given = {field.name for field, _ in message.ListFields()}
    fields = {field_id: _map(changes) for field_id, changes in message.field_metadata_updates.items()}
    return LanceOperation.UpdateConfig(
        _map(message.config_updates) if "config_updates" in given else None,
        _map(message.table_metadata_updates) if "table_metadata_updates" in given else None,
        _map(message.schema_metadata_updates) if "schema_metadata_updates" in given else None,
        fields or None,
    )


_READERS: Mapping[str, Callable[[Any], LanceOperation.BaseOperation]] = {
    "append": _append,
    "overwrite": _overwrite,
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "project": _project,
    "rewrite": _rewrite,
    "restore": _restore,
    "data_replacement": _data_replacement,
    "create_index": _create_index,
    "update_config": _update_config,
}


def _fragments(messages: Iterable[table_pb2.DataFragment]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_message(message) for message in messages]


def _map(message: TransactionMessage.UpdateMap) -> LanceOperation.UpdateMap:
    updates = {
        entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries
    }
    return LanceOperation.UpdateMap(updates, message.replace)
