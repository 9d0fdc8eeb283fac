"""Update: rows get other values. They move to new fragments, or change in place."""

from collections.abc import Iterable

import numpy as np
import pyroaring

from lance_core.commit.lineage_encoding import consecutive_row_ids, encode_versions, followed_by, one_version
from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import add_fragments, field_ids, replace_fragments, with_parents
from lance_core.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.fragment import Fragment, Lineage
from lance_core.table.row_ids import RowIds, decode_first_row_ids, find_row_ids
from lance_core.table.row_versions import Versions, decode_versions, read_versions

_UNKNOWN_VERSION = 1
"""Creation version of rows whose fragment does not record one, as in the reference."""


def apply(message: table_pb2.Manifest, operation: Transaction.Update, context: Context) -> None:
    """Replace, remove and add fragments.

    With stable row ids, new fragments contain the ids of the moved rows, which come first. The other rows are
    new. Moved rows keep their creation version.

    Raises:
        UnsupportedFeatureError: the update merges a write-ahead log, or row ids or versions are in a hidden
            column.
        InvalidInputError: the row ids of a fragment do not decode, or exceed its rows.
    """
    if operation.compacted_sstables:
        raise UnsupportedFeatureError("updates that merge a write-ahead log")
    before = [_copy(fragment) for fragment in message.fragments] if _needs_origins(operation, context) else []
    updated = replace_fragments(message, operation.updated_fragments, operation.removed_fragment_ids, context)
    modified = with_parents(message, operation.fields_modified)
    context.indices.forget((fragment.id for fragment in updated), modified)
    if context.stable_row_ids and operation.update_mode == Transaction.Update.REWRITE_COLUMNS:
        for fragment in updated:
            _note_change(fragment, operation, context)
    moved_only = []
    for fragment in add_fragments(message, operation.new_fragments, context):
        if context.stable_row_ids and _number_rows(message, fragment, before, context):
            moved_only.append(fragment.id)
    if operation.fields_for_preserving_frag_bitmap:
        origins = {fragment.id for fragment in updated} | set(operation.removed_fragment_ids)
        changed = with_parents(message, operation.fields_for_preserving_frag_bitmap)
        context.indices.follow(origins, moved_only, changed)
    context.indices.retain(field_ids(message), (fragment.id for fragment in message.fragments))


def _copy(fragment: table_pb2.DataFragment) -> table_pb2.DataFragment:
    copied = table_pb2.DataFragment()
    copied.CopyFrom(fragment)
    return copied


def _needs_origins(operation: Transaction.Update, context: Context) -> bool:
    """Return whether rows were moved without their creation versions."""
    return context.stable_row_ids and any(
        fragment.HasField("inline_row_ids") and not fragment.HasField("inline_created_at_versions")
        for fragment in operation.new_fragments
    )


def _note_change(fragment: table_pb2.DataFragment, operation: Transaction.Update, context: Context) -> None:
    """Record the new version as the last change of the rows whose columns were rewritten."""
    rows = fragment.physical_rows
    if fragment.HasField("column_last_updated_at_versions"):
        raise UnsupportedFeatureError("rewriting columns of fragments with versions of rows in a column")
    data = operation.updated_fragment_offset_bitmaps.get(fragment.id)
    if data is None:
        if fragment.id not in operation.updated_fragment_offsets:
            fragment.inline_last_updated_at_versions = one_version(context.version, rows)
            return
        values: Iterable[int] = operation.updated_fragment_offsets[fragment.id].values
        offsets = pyroaring.BitMap(values)
    else:
        try:
            offsets = pyroaring.BitMap.deserialize(data)
        except (ValueError, IndexError) as error:
            raise InvalidInputError("updated rows do not decode", found=error) from None
    if offsets and offsets.max() >= rows:
        raise InvalidInputError("updated row", expected=f"below {rows}", found=offsets.max())
    view = Fragment(fragment, "", None, {})
    versions = read_versions(view, Lineage.LAST_UPDATED_AT).copy()
    versions[np.frombuffer(offsets.to_array(), dtype=np.uint32)] = context.version
    fragment.inline_last_updated_at_versions = encode_versions(versions)


def _number_rows(
    message: table_pb2.Manifest,
    fragment: table_pb2.DataFragment,
    before: list[table_pb2.DataFragment],
    context: Context,
) -> bool:
    """Complete the row ids and versions of a new fragment; return whether all its rows were moved."""
    if fragment.HasField("column_row_ids"):
        raise UnsupportedFeatureError("updates that write row ids into a column")
    name = f"row ids of new fragment {fragment.id}"
    rows = fragment.physical_rows
    try:
        moved = decode_first_row_ids(fragment.inline_row_ids, rows, name)
    except CorruptFileError as error:
        raise InvalidInputError(f"{name} do not decode", found=error) from None
    if not len(moved):
        fragment.inline_row_ids = consecutive_row_ids(message.next_row_id, rows)
    elif len(moved) < rows:
        fragment.inline_row_ids = followed_by(fragment.inline_row_ids, message.next_row_id, rows - len(moved))
    message.next_row_id += rows - len(moved)
    created = np.full(rows, context.version, dtype=np.uint64)
    created[: len(moved)] = _created(fragment, moved, before)
    fragment.inline_created_at_versions = encode_versions(created)
    fragment.inline_last_updated_at_versions = one_version(context.version, rows)
    return len(moved) == rows


def _created(
    fragment: table_pb2.DataFragment, moved: RowIds, before: list[table_pb2.DataFragment]
) -> Versions:
    """Return the creation version of each moved row."""
    if fragment.HasField("inline_created_at_versions"):
        name = f"row versions of new fragment {fragment.id}"
        return decode_versions(fragment.inline_created_at_versions, len(moved), name)
    order = np.argsort(moved)
    found = np.full(len(moved), _UNKNOWN_VERSION, dtype=np.uint64)
    # A row that was moved before is in several fragments, which all record the same creation version.
    for message in before:
        view = Fragment(message, "", None, {})
        places, rows = find_row_ids(view, moved[order])
        if len(places):
            if message.HasField("column_created_at_versions"):
                raise UnsupportedFeatureError("moving rows whose versions are in a column")
            found[order[places]] = read_versions(view, Lineage.CREATED_AT)[rows]
    return found
