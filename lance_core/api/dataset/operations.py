"""Operations of a commit, with the names and arguments of the reference library.

`lance_core.api.dataset.transactions` makes the same objects from committed transactions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pyarrow as pa
import pyroaring

from lance_core.api.bitmap import Bitmap
from lance_core.api.fragment.metadata import DataFile, FragmentMetadata
from lance_core.api.names.late import refuse_missing
from lance_core.api.schema import LanceSchema
from lance_core.arguments import refuse_wrong_types
from lance_core.commit.index_section import coverage
from lance_core.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction as TransactionMessage
from lance_core.schema import Schema
from lance_core.table import transaction as transactions
from lance_core.table.bases import DatasetBasePath


@dataclass
class IndexFile:
    """A file of an index segment."""

    path: str
    """Name of the file in the directory of the segment."""
    size_bytes: int


@dataclass
class Index:
    """A segment of an index whose files exist already."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Iterable[int]
    """Ids of the fragments that the segment covers."""
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    """Files of the segment; None if their sizes are unknown."""
    index_details: tuple[str, bytes] | None = None
    """Details of the index kind: a type URL and a protobuf message."""
    covering_fields: list[int] = field(default_factory=list)

    def to_message(self) -> table_pb2.IndexMetadata:
        """Return the message that manifests and transactions store."""
        message = table_pb2.IndexMetadata(
            uuid=table_pb2.UUID(uuid=UUID(self.uuid).bytes),
            name=self.name,
            fields=self.fields,
            dataset_version=self.dataset_version,
            fragment_bitmap=bytes(pyroaring.BitMap(self.fragment_ids).serialize()),
            index_version=self.index_version,
            base_id=self.base_id,
            covering_fields=self.covering_fields,
            files=[
                table_pb2.IndexFile(path=file.path, size_bytes=file.size_bytes) for file in self.files or ()
            ],
        )
        if self.created_at is not None:
            message.created_at = round(self.created_at.timestamp() * 1000)
        if self.index_details is not None:
            message.index_details.type_url, message.index_details.value = self.index_details
        return message

    @classmethod
    def from_message(cls, message: table_pb2.IndexMetadata) -> Index:
        """Return the segment that a message of a manifest describes."""
        details = message.index_details
        has_time = message.HasField("created_at")
        return cls(
            uuid=str(UUID(bytes=message.uuid.uuid)),
            name=message.name,
            fields=list(message.fields),
            dataset_version=message.dataset_version,
            fragment_ids=Bitmap(coverage(message)),
            index_version=message.index_version,
            created_at=datetime.fromtimestamp(message.created_at / 1000, UTC) if has_time else None,
            base_id=message.base_id if message.HasField("base_id") else None,
            files=[IndexFile(file.path, file.size_bytes) for file in message.files] or None,
            index_details=(details.type_url, details.value) if message.HasField("index_details") else None,
            covering_fields=list(message.covering_fields),
        )


class _Operations(type):
    """Type of `LanceOperation`, which says what to use instead of operations that are missing."""

    if not TYPE_CHECKING:  # a type checker would believe that every name exists
        __getattr__ = refuse_missing("LanceOperation")


class LanceOperation(metaclass=_Operations):
    """Namespace of the operations that a caller who has written files passes to `LanceDataset.commit`."""

    class BaseOperation:
        """Base of all operations.

        As in the reference, an operation that callers cannot make is of this type itself. The reservation of
        fragment ids is one.
        """

        def __init__(self, kind: str) -> None:
            """Name the operation's field in the transaction."""
            self.kind = kind

        def describe(self, transaction: TransactionMessage) -> None:
            """Set this operation in a transaction that has no operation yet.

            Raises:
                LanceError: The operation cannot be committed.
            """
            raise UnsupportedFeatureError("committing an operation of this kind", found=self.kind)

    @dataclass
    class Append(BaseOperation):
        """Operation that adds fragments. The commit gives them their ids."""

        fragments: Iterable[FragmentMetadata]

        def describe(self, transaction: TransactionMessage) -> None:
            transactions.append(transaction, _messages(self.fragments))

    @dataclass
    class Overwrite(BaseOperation):
        """Operation that replaces all fragments and the schema, or creates a dataset."""

        new_schema: LanceSchema | pa.Schema
        fragments: Iterable[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

        def describe(self, transaction: TransactionMessage) -> None:
            bases = [base.to_message() for base in self.initial_bases or ()]
            schema = _with_ids(self.new_schema)
            transactions.overwrite(transaction, _messages(self.fragments), schema, initial_bases=bases)

    @dataclass
    class Delete(BaseOperation):
        """Operation that gives fragments other deletion files, and removes fragments without live rows."""

        updated_fragments: Iterable[FragmentMetadata]
        deleted_fragment_ids: Iterable[int]
        predicate: str

        def describe(self, transaction: TransactionMessage) -> None:
            updated = _messages(self.updated_fragments)
            transactions.delete(transaction, updated, self.deleted_fragment_ids, self.predicate)

    @dataclass
    class Update(BaseOperation):
        """Operation that moves rows with other values to new fragments, or rewrites columns of fragments."""

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        """`rewrite_rows` or `rewrite_columns`; an empty text means `rewrite_rows`."""
        updated_fragment_offsets: dict[int, bytes] | None = None
        """Rows whose columns were rewritten: a serialized Roaring bitmap per fragment id."""

        def describe(self, transaction: TransactionMessage) -> None:
            if self.update_mode not in ("", "rewrite_rows", "rewrite_columns"):
                raise InvalidInputError("update_mode", found=repr(self.update_mode))
            transactions.update(
                transaction,
                updated=_messages(self.updated_fragments),
                removed_ids=self.removed_fragment_ids,
                new=_messages(self.new_fragments),
                fields_modified=self.fields_modified,
                fields_for_preserving_frag_bitmap=self.fields_for_preserving_frag_bitmap,
                rewrites_columns=self.update_mode == "rewrite_columns",
            )
            for fragment_id, bitmap in (self.updated_fragment_offsets or {}).items():
                transaction.update.updated_fragment_offset_bitmaps[fragment_id] = bitmap

    @dataclass
    class Merge(BaseOperation):
        """Operation that replaces all fragments by the same fragments with added or rewritten columns."""

        fragments: Iterable[FragmentMetadata]
        schema: LanceSchema | pa.Schema
        """An Arrow schema gets the field ids 0, 1, 2 ..., which may not be those of the fragments."""
        preserves_nullability: bool = False

        def __post_init__(self) -> None:
            if isinstance(self.schema, pa.Schema):
                warnings.warn(
                    "Merge with a pyarrow.Schema is deprecated: give a LanceSchema, which has field ids",
                    DeprecationWarning,
                    stacklevel=3,
                )

        def describe(self, transaction: TransactionMessage) -> None:
            fragments, schema = _messages(self.fragments), _with_ids(self.schema)
            kept = self.preserves_nullability
            transactions.merge(transaction, fragments, schema, preserves_nullability=kept)

    @dataclass
    class Project(BaseOperation):
        """Operation that replaces the schema by one with fewer columns, other names or another order."""

        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

        def describe(self, transaction: TransactionMessage) -> None:
            kept = self.preserves_nullability
            transactions.project(transaction, _with_ids(self.schema), preserves_nullability=kept)

    @dataclass
    class RewriteGroup:
        """Fragments to replace, and the new fragments with the same rows."""

        old_fragments: Iterable[FragmentMetadata]
        new_fragments: Iterable[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """Index segment that was rewritten, because its rows have other addresses now."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Operation that replaces fragments by others with the same rows."""

        groups: Iterable[LanceOperation.RewriteGroup]
        rewritten_indices: Iterable[LanceOperation.RewrittenIndex]

        def describe(self, transaction: TransactionMessage) -> None:
            groups = [
                (_messages(group.old_fragments), _messages(group.new_fragments)) for group in self.groups
            ]
            transactions.rewrite(transaction, groups)
            for index in self.rewritten_indices:
                message = transaction.rewrite.rewritten_indices.add(
                    old_id=table_pb2.UUID(uuid=UUID(index.old_id).bytes),
                    new_id=table_pb2.UUID(uuid=UUID(index.new_id).bytes),
                    new_index_version=index.new_index_version,
                )
                message.new_index_details.type_url = index.new_details_type_url
                message.new_index_details.value = index.new_details_value

    @dataclass
    class Restore(BaseOperation):
        """Operation that restores the content of an older version."""

        version: int

        def describe(self, transaction: TransactionMessage) -> None:
            transactions.restore(transaction, self.version)

    @dataclass
    class DataReplacementGroup:
        """A new file of a fragment. It replaces the file with the same fields."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Operation that replaces files by files with other values of the same columns."""

        replacements: list[LanceOperation.DataReplacementGroup]

        def describe(self, transaction: TransactionMessage) -> None:
            pairs = [(each.fragment_id, each.new_file.to_message()) for each in self.replacements]
            transactions.data_replacement(transaction, pairs)

    @dataclass
    class CreateIndex(BaseOperation):
        """Operation that adds and removes index segments."""

        new_indices: list[Index]
        removed_indices: list[Index]

        def describe(self, transaction: TransactionMessage) -> None:
            new, removed = (
                [index.to_message() for index in each] for each in (self.new_indices, self.removed_indices)
            )
            transactions.create_index(transaction, new, removed)

    @dataclass
    class UpdateMap:
        """Changes of a map: new values by key. None removes a key; `replace` removes all keys not named."""

        updates: Mapping[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Operation that changes settings and metadata. Fields are named by their ids."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: Mapping[int, LanceOperation.UpdateMap] | None = None

        def describe(self, transaction: TransactionMessage) -> None:
            transactions.update_config(
                transaction,
                config=_changes(self.config_updates),
                table_metadata=_changes(self.table_metadata_updates),
                schema_metadata=_changes(self.schema_metadata_updates),
            )
            for field_id, given in (self.field_metadata_updates or {}).items():
                updates = transaction.update_config.field_metadata_updates[field_id]
                updates.CopyFrom(transactions.update_map(given.updates, replace=given.replace))


@dataclass
class Transaction:
    """An operation, the version it was made on, and an id."""

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)

    def to_message(self) -> TransactionMessage:
        """Return the message that is committed.

        Raises:
            InvalidInputError: The id is no UUID, or the operation is not valid.
        """
        try:
            message = transactions.new_transaction(
                self.read_version, uuid=self.uuid, properties=self.transaction_properties
            )
            self.operation.describe(message)
        except LanceError:
            raise
        except Exception as error:
            for described in (self, self.operation):
                refuse_wrong_types(type(described), vars(described), error)
            raise InvalidInputError(f"transaction: {error}") from error
        return message


def _messages(fragments: Iterable[FragmentMetadata]) -> list[table_pb2.DataFragment]:
    return [fragment.to_message() for fragment in fragments]


def _changes(given: LanceOperation.UpdateMap | None) -> TransactionMessage.UpdateMap | None:
    return None if given is None else transactions.update_map(given.updates, replace=given.replace)


def _with_ids(schema: LanceSchema | pa.Schema) -> Schema:
    """Return the schema with field ids. The fields of an Arrow schema are numbered, depth first."""
    if isinstance(schema, pa.Schema):
        schema = LanceSchema.from_pyarrow(schema)
    if not isinstance(schema, LanceSchema):
        raise InvalidInputError(
            "schema", expected="a LanceSchema or a pyarrow.Schema", found=type(schema).__name__
        )
    return schema.schema
