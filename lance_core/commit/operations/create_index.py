"""CreateIndex: index segments that other writers built are added or dropped."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import field_ids
from lance_core.errors import CommitConflictError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.fragment_reuse import FRAGMENT_REUSE
from lance_core.table.indices import MEM_WAL


def apply(message: table_pb2.Manifest, operation: Transaction.CreateIndex, context: Context) -> None:
    """Remove index entries and add others.

    Raises:
        CommitConflictError: a field of a new segment was dropped, or the fragment reuse index is not the
            one that the operation replaces; retryable.
        UnsupportedFeatureError: a new segment has the name of a system index, and replaces none.
    """
    new_reuse, old_reuse = (
        next((segment for segment in segments if segment.name == FRAGMENT_REUSE), None)
        for segments in (operation.new_indices, operation.removed_indices)
    )
    if old_reuse is not None:
        context.indices.replace_reuse(new_reuse, old_reuse.uuid.uuid)
    for segment in operation.new_indices:
        if segment.name == FRAGMENT_REUSE and old_reuse is not None:
            continue
        if segment.name in (FRAGMENT_REUSE, MEM_WAL):
            raise UnsupportedFeatureError("adding an index of the system", found=segment.name)
        if not field_ids(message).issuperset([*segment.fields, *segment.covering_fields]):
            raise CommitConflictError(f"a field of index {segment.name} was dropped", retryable=True)
    context.indices.remove({segment.uuid.uuid for segment in operation.removed_indices})
    context.indices.add(operation.new_indices)
