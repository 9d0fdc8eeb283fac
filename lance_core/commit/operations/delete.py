"""Delete: fragments get new deletion files, and fragments without rows are removed."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import field_ids, replace_fragments
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.Delete, context: Context) -> None:
    """Replace and remove fragments. Indices still name the deleted rows, and readers leave them out."""
    replace_fragments(message, operation.updated_fragments, operation.deleted_fragment_ids, context)
    context.indices.retain(field_ids(message), (fragment.id for fragment in message.fragments))
