"""The manifest of the next version: the current one with an operation applied to it.

What an operation does not mention is carried over. Feature flags are derived from the content; positions
inside the file of the current manifest mean nothing in another file and are left out.
Source: Lance table format, "What each operation does to the manifest"; docs/format.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2, transaction_pb2
from lance_core.table import feature_flags
from lance_core.table.fragment import MAX_ROWS
from lance_core.table.manifest import Manifest
from lance_core.table.row_sequences import consecutive_row_ids, one_version
from lance_core.table.signature import sign
from lance_core.table.transaction import file_name

_MEM_WAL = "__lance_mem_wal"
"""Name of the index that stands for a write-ahead log."""


@dataclass(frozen=True)
class TableSettings:
    """What a new table begins with, or what an overwrite changes."""

    file_version: FileVersion
    """Of the data files."""
    stable_row_ids: bool = False
    """Whether rows keep their ids when they are moved. Only new tables can choose."""


def next_manifest(
    current: Manifest | None, transaction: transaction_pb2.Transaction, settings: TableSettings
) -> tuple[table_pb2.Manifest, bytes | None]:
    """The manifest of the next version, without positions, and the index section that belongs into its file.

    Args:
        current: the version that the transaction is applied to; None for a new table.
        transaction: an append or an overwrite.
        settings: what files the transaction adds, and what a new table is like.

    Raises:
        UnsupportedFeatureError: the table may not be written by this package, or not in this way.
        InvalidInputError: the table has no fragment ids left.
    """
    message = table_pb2.Manifest()
    index_section = None
    if current is not None:
        feature_flags.check_writable(current.reader_feature_flags, current.writer_feature_flags, current.name)
        if any(segment.name == _MEM_WAL for segment in current.index_segments):
            raise UnsupportedFeatureError(
                "writing beside a write-ahead log", file=current.name, found=_MEM_WAL
            )
        message.CopyFrom(current.message)
        index_section = current.index_section
        for position in (
            "version_aux_data",
            "index_section",
            "transaction_section",
            "transaction_section_deprecated",
        ):
            message.ClearField(position)
    message.version = (current.version if current else 0) + 1
    stable_row_ids = current.has_stable_row_ids if current else settings.stable_row_ids
    if transaction.WhichOneof("operation") == "overwrite":
        index_section = None
        _replace(message, transaction.overwrite, settings)
        fragments = transaction.overwrite.fragments
    else:
        fragments = transaction.append.fragments
    if not message.data_format.version:  # old libraries did not say
        message.data_format.file_format, message.data_format.version = "lance", settings.file_version.name
    drop_dictionaries(message)
    _add_fragments(message, fragments, stable_row_ids)
    _set_flags(message, stable_row_ids, has_indices=index_section is not None)
    message.ClearField("transaction_file")
    if not message.writer_feature_flags & feature_flags.INLINE_TRANSACTIONS_ONLY:
        message.transaction_file = file_name(transaction)
    message.tag = ""
    sign(message)
    return message, index_section


def _replace(
    message: table_pb2.Manifest, operation: transaction_pb2.Transaction.Overwrite, settings: TableSettings
) -> None:
    """Everything but the fragments that come instead of the old ones."""
    if message.writer_feature_flags & feature_flags.FIELD_IDS_NEVER_REUSED:
        raise UnsupportedFeatureError("overwriting a table that never uses a field id again")
    del message.fields[:], message.fragments[:]
    message.fields.extend(operation.schema)
    message.schema_metadata.clear()
    for key, data in operation.schema_metadata.items():
        message.schema_metadata[key] = data
    for key, text in operation.config_upsert_values.items():
        message.config[key] = text
    message.data_format.file_format = "lance"
    message.data_format.version = settings.file_version.name


def drop_dictionaries(message: table_pb2.Manifest) -> None:
    """Forget where values of dictionaries are in the old file: only 0.1 files lack them.

    Raises:
        UnsupportedFeatureError: the table has such files.
    """
    for field in message.fields:
        if field.dictionary.length:
            if message.data_format.version == FileVersion.V0_1.name:
                raise UnsupportedFeatureError(
                    "writing on a 0.1 table with a dictionary column", column=field.name
                )
            field.dictionary.Clear()
            field.dictionary.SetInParent()


def _add_fragments(
    message: table_pb2.Manifest, fragments: Iterable[table_pb2.DataFragment], stable_row_ids: bool
) -> None:
    """Add fragments with the next ids, and with the next row ids where the table keeps them."""
    known = [fragment.id for fragment in message.fragments]
    if known != sorted(known):
        # Rows are in the order of the fragments, and readers expect that to be the order of their ids.
        message.fragments.sort(key=lambda fragment: fragment.id)
    if message.HasField("max_fragment_id"):
        known.append(message.max_fragment_id)
    next_id = max(known, default=-1) + 1
    for fragment in fragments:
        if next_id >= MAX_ROWS:
            raise InvalidInputError("table has no fragment ids left", expected=f"below {MAX_ROWS}")
        added = message.fragments.add()
        added.CopyFrom(fragment)
        added.id = next_id
        message.max_fragment_id = next_id
        next_id += 1
        if stable_row_ids:
            rows = fragment.physical_rows
            added.inline_row_ids = consecutive_row_ids(message.next_row_id, rows)
            added.inline_created_at_versions = one_version(message.version, rows)
            added.inline_last_updated_at_versions = one_version(message.version, rows)
            message.next_row_id += rows


def _set_flags(message: table_pb2.Manifest, stable_row_ids: bool, has_indices: bool) -> None:
    kept = feature_flags.STICKY | (feature_flags.COVERING_INDEX_COLUMNS if has_indices else 0)
    reader, writer = message.reader_feature_flags & kept, message.writer_feature_flags & kept
    both = 0
    if any(fragment.HasField("deletion_file") for fragment in message.fragments):
        both |= feature_flags.DELETION_FILES
    if stable_row_ids:
        both |= feature_flags.STABLE_ROW_IDS
    if message.base_paths:
        both |= feature_flags.BASE_PATHS
    if any(fragment.HasField("column_row_ids") for fragment in message.fragments):
        both |= feature_flags.SPILLED_LINEAGE
    message.reader_feature_flags = reader | both
    message.writer_feature_flags = writer | both | (feature_flags.TABLE_CONFIG if message.config else 0)
