"""Manifest of the next version: the current manifest with an operation applied.

Fields that an operation does not mention are kept. Feature flags are derived from the content. Positions
inside the file of the current manifest are removed, because they are invalid in another file.

Source: docs/format.md, "Writing a version".
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lance_core.commit.index_section import DeferredMoves, IndexSectionEditor
from lance_core.commit.operations import (
    append,
    create_index,
    data_replacement,
    delete,
    merge,
    overwrite,
    project,
    reserve_fragments,
    restore,
    rewrite,
    update,
    update_bases,
    update_config,
)
from lance_core.commit.operations.context import Context, TableSettings
from lance_core.commit.operations.fragments import reserve_until, sort_fragments
from lance_core.commit.stream_progress import note_progress
from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.storage import Storage
from lance_core.table import feature_flags
from lance_core.table.bases import DatasetBasePath
from lance_core.table.fragment import TOMBSTONE, Fragment
from lance_core.table.indices import MEM_WAL
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_dictionaries import dictionaries_of
from lance_core.table.manifest_repairs import has_several_file_versions
from lance_core.table.snapshot import read_manifest
from lance_core.table.transaction import file_name
from lance_core.table.writer_version import sign

__all__ = ["TableSettings", "dictionary_values", "next_manifest"]

_APPLY: dict[str, Callable[[table_pb2.Manifest, Any, Context], None]] = {
    "append": append.apply,
    "create_index": create_index.apply,
    "data_replacement": data_replacement.apply,
    "delete": delete.apply,
    "merge": merge.apply,
    "overwrite": overwrite.apply,
    "project": project.apply,
    "reserve_fragments": reserve_fragments.apply,
    "restore": restore.apply,
    "rewrite": rewrite.apply,
    "update": update.apply,
    "update_bases": update_bases.apply,
    "update_config": update_config.apply,
}

_WITHOUT_FORMER_FILES = {"overwrite", "restore"}
"""Operations after which the table has none of its former files."""


def next_manifest(
    current: Manifest | None,
    transaction: Transaction,
    settings: TableSettings,
    *,
    read_version: Callable[[int], Manifest],
    deferred_moves: DeferredMoves | None = None,
) -> tuple[table_pb2.Manifest, bytes | None]:
    """Return the manifest of the next version without positions, and the index section for its file.

    Args:
        current: version to which the transaction is applied; None for a new table.
        transaction: transaction with an operation.
        settings: version of the files that an overwrite adds, and settings of a new table.
        read_version: returns the manifest of another version of the table.
        deferred_moves: moves of a rewrite that leaves index files as they are.

    Raises:
        UnsupportedFeatureError: this package cannot write to the table, or cannot apply the operation.
        InvalidInputError: the operation is invalid for the table.
        CommitConflictError: the operation names something that no longer exists.
    """
    operation = transaction.WhichOneof("operation")
    if operation not in _APPLY:
        raise UnsupportedFeatureError("committing this operation", found=operation or "none")
    if current is None and operation != "overwrite":
        raise InvalidInputError(f"{operation} on a table that does not exist")
    if current is not None:
        _check_writable(current, operation)
    message = table_pb2.Manifest()
    if current is not None:
        message.CopyFrom(current.message)
    context = Context(
        version=current.version + 1 if current else 1,
        stable_row_ids=current.has_stable_row_ids if current else settings.stable_row_ids,
        indices=(
            IndexSectionEditor(current.index_section, lambda: current.fragment_reuse)
            if current
            else IndexSectionEditor(None)
        ),
        settings=settings,
        is_new=current is None,
        read_version=read_version,
        deferred_moves=deferred_moves,
    )
    sort_fragments(message)
    if message.fragments:  # old libraries did not record the highest id
        reserve_until(message, message.fragments[-1].id)
    _APPLY[operation](message, getattr(transaction, operation), context)
    note_progress(message, transaction)
    _finish(message, transaction, context)
    return message, context.indices.section


def dictionary_values(
    storage: Storage, current: Manifest | None, transaction: Transaction, settings: TableSettings
) -> Mapping[int, pa.Array]:
    """Return the values of the dictionary columns in the data files of the new version, by field id.

    The arguments are those of `next_manifest`.
    """
    if current is None or transaction.HasField("overwrite"):
        return settings.dictionaries
    if transaction.HasField("restore"):
        current = read_manifest(storage, transaction.restore.version)
    return dictionaries_of(current)


def _check_writable(current: Manifest, operation: str) -> None:
    if operation not in _WITHOUT_FORMER_FILES and has_several_file_versions(current.message):
        raise UnsupportedFeatureError(
            "writing to a table with data files of 0.1 and 2.x; restore an older version, or overwrite it",
            file=current.name,
        )
    feature_flags.check_writable(current.reader_feature_flags, current.writer_feature_flags, current.name)
    if any(segment.name == MEM_WAL for segment in current.stored_index_segments):
        raise UnsupportedFeatureError("writing beside a write-ahead log", file=current.name, found=MEM_WAL)


def _finish(message: table_pb2.Manifest, transaction: Transaction, context: Context) -> None:
    """Apply the rules that hold for every manifest, after any operation."""
    for position in (
        "version_aux_data",
        "index_section",
        "transaction_section",
        "transaction_section_deprecated",
        "transaction_file",
        "tag",
    ):
        message.ClearField(position)
    message.version = context.version
    if not message.data_format.version:  # old libraries did not record the version
        version = context.settings.file_version or _version_of_files(message)
        message.data_format.file_format, message.data_format.version = "lance", version.name
    _drop_what_is_empty(message, context)
    _set_flags(message, context)
    _check_changed(message, context)
    if not message.writer_feature_flags & feature_flags.INLINE_TRANSACTIONS_ONLY:
        message.transaction_file = file_name(transaction)
    sign(message)


def _version_of_files(message: table_pb2.Manifest) -> FileVersion:
    for fragment in message.fragments:
        for file in fragment.files:
            return FileVersion.from_numbers(file.file_major_version, file.file_minor_version, file=file.path)
    return FileVersion.V2_2 if message.writer_feature_flags & feature_flags.V2_FORMAT else FileVersion.V0_1


def _drop_what_is_empty(message: table_pb2.Manifest, context: Context) -> None:
    """Drop obsolete data files and fragments without live rows.

    Only changed fragments are examined: a table has many, and the others were examined when they changed.
    """
    gone = set()
    for fragment in context.changed:
        deleted = fragment.deletion_file.num_deleted_rows
        if fragment.HasField("deletion_file") and 0 < deleted == fragment.physical_rows:
            gone.add(fragment.id)
        if any(_is_obsolete(file) for file in fragment.files):
            kept = [file for file in fragment.files if not _is_obsolete(file)]
            del fragment.files[:]
            fragment.files.extend(kept)
    if gone:
        places = [place for place, fragment in enumerate(message.fragments) if fragment.id in gone]
        for place in reversed(places):
            del message.fragments[place]


def _is_obsolete(file: table_pb2.DataFile) -> bool:
    fields = file.fields
    return bool(fields) and fields[0] == TOMBSTONE and set(fields) == {TOMBSTONE}


def _set_flags(message: table_pb2.Manifest, context: Context) -> None:
    reader = message.reader_feature_flags & feature_flags.STICKY
    writer = message.writer_feature_flags & feature_flags.STICKY
    both = 0
    if context.indices.has_covering_columns:
        both |= feature_flags.COVERING_INDEX_COLUMNS
    if _any(message, context, feature_flags.DELETION_FILES, _has_deletions):
        both |= feature_flags.DELETION_FILES
    if context.stable_row_ids:
        both |= feature_flags.STABLE_ROW_IDS
    if message.base_paths:
        both |= feature_flags.BASE_PATHS
    if _any(message, context, feature_flags.SPILLED_LINEAGE, _has_spilled_lineage):
        both |= feature_flags.SPILLED_LINEAGE
    message.reader_feature_flags = reader | both
    message.writer_feature_flags = writer | both | (feature_flags.TABLE_CONFIG if message.config else 0)


def _any(
    message: table_pb2.Manifest, context: Context, flag: int, has: Callable[[table_pb2.DataFragment], bool]
) -> bool:
    """Return whether any fragment has the property of a feature flag.

    If the flag is not set, unchanged fragments do not have the property, so only changed fragments are
    examined.
    """
    return any(map(has, context.changed)) or bool(
        message.reader_feature_flags & flag and any(map(has, message.fragments))
    )


def _has_deletions(fragment: table_pb2.DataFragment) -> bool:
    return fragment.HasField("deletion_file")


def _has_spilled_lineage(fragment: table_pb2.DataFragment) -> bool:
    return (
        fragment.HasField("column_row_ids")
        or fragment.HasField("column_created_at_versions")
        or fragment.HasField("column_last_updated_at_versions")
    )


def _check_changed(message: table_pb2.Manifest, context: Context) -> None:
    """Refuse changed fragments that no reader could read, before the version is made.

    Raises:
        InvalidInputError: a fragment contradicts the format, or lacks row ids.
    """
    mixed = message.reader_feature_flags & feature_flags.MIXED_FILE_VERSIONS
    format_ = None if mixed else FileVersion.from_name(message.data_format.version)
    bases = {base.id: DatasetBasePath.from_message(base) for base in message.base_paths}
    for fragment in context.changed:
        try:
            files = Fragment(fragment, "the new version", format_, bases).files
        except CorruptFileError as error:
            raise InvalidInputError(f"fragment {fragment.id} is invalid: {error}") from None
        if not all(file.held.field_ids for file in files):
            raise InvalidInputError(f"fragment {fragment.id} has a data file without columns")
        if context.stable_row_ids and fragment.WhichOneof("row_id_sequence") is None:
            raise InvalidInputError(f"fragment {fragment.id} has no row ids")
