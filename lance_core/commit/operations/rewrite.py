"""Rewrite: fragments are replaced by others with the same rows, as a compaction does."""

from collections.abc import Iterable, Mapping

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import (
    add_fragments,
    replace_fragments,
    reserve_until,
    sort_fragments,
)
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.Rewrite, context: Context) -> None:
    """Replace the fragments of every group. New fragments keep their reserved ids, or get the next free id.

    Raises:
        CommitConflictError: a fragment was removed; retryable.
        InvalidInputError: an id is in use, rows were lost, or an index covers only a part of a group.
        LanceError: the fragment reuse index of the table cannot be read.
    """
    rewritten = {each.old_id.uuid: each for each in operation.rewritten_indices}
    before = {fragment.id: _num_rows(fragment) for fragment in message.fragments}
    groups = _groups(operation)
    for group in groups:
        _require_same_rows(before, group)
    replace_fragments(message, (), {each.id for group in groups for each in group.old_fragments}, context)
    moves = []
    for group in groups:
        new = _add(message, group.new_fragments, context)
        moves.append(({each.id for each in group.old_fragments}, {each.id for each in new}))
    sort_fragments(message)
    if context.deferred_moves is not None:
        context.indices.defer(moves, context.deferred_moves)
        return
    context.indices.move(moves, rewritten=rewritten.keys(), stable_row_ids=context.stable_row_ids)
    for segment in context.indices.editable():
        if segment.uuid.uuid in rewritten:
            _take_files(segment, rewritten[segment.uuid.uuid])


def _groups(operation: Transaction.Rewrite) -> list[Transaction.Rewrite.RewriteGroup]:
    groups = list(operation.groups)
    if operation.old_fragments or operation.new_fragments:
        groups.append(
            Transaction.Rewrite.RewriteGroup(
                old_fragments=operation.old_fragments, new_fragments=operation.new_fragments
            )
        )
    return groups


def _require_same_rows(num_rows: Mapping[int, int | None], group: Transaction.Rewrite.RewriteGroup) -> None:
    """Compare the numbers of live rows, as far as the manifest has them."""
    before = [num_rows.get(fragment.id) for fragment in group.old_fragments]
    after = [_num_rows(fragment) for fragment in group.new_fragments]
    if None not in before:
        old, new = (sum(rows for rows in each if rows is not None) for each in (before, after))
        if old != new:
            raise InvalidInputError("rows of rewritten fragments", expected=old, found=new)


def _num_rows(fragment: table_pb2.DataFragment) -> int | None:
    """Return the number of live rows; None if an old library left out a count."""
    deleted = fragment.deletion_file.num_deleted_rows
    if not fragment.physical_rows or (fragment.HasField("deletion_file") and not deleted):
        return None
    return fragment.physical_rows - deleted


def _add(
    message: table_pb2.Manifest, fragments: Iterable[table_pb2.DataFragment], context: Context
) -> list[table_pb2.DataFragment]:
    taken = {fragment.id for fragment in message.fragments}
    added = []
    for fragment in fragments:
        if not fragment.id:  # 0 means no reserved id: id 0 belongs to the first fragment of the table
            added += add_fragments(message, [fragment], context)
            continue
        if fragment.id in taken or not message.HasField("max_fragment_id"):
            raise InvalidInputError("fragment id is in use", found=fragment.id)
        reserve_until(message, fragment.id)
        message.fragments.append(fragment)
        added.append(message.fragments[-1])
        context.changed.append(message.fragments[-1])
    return added


def _take_files(segment: table_pb2.IndexMetadata, rewritten: Transaction.Rewrite.RewrittenIndex) -> None:
    """Let an index entry refer to the rewritten files, under their new uuid."""
    segment.uuid.CopyFrom(rewritten.new_id)
    segment.ClearField("base_id")
    del segment.files[:]
    segment.files.extend(rewritten.new_index_files)
    if rewritten.HasField("new_index_details"):
        segment.index_details.CopyFrom(rewritten.new_index_details)
        segment.index_version = rewritten.new_index_version
