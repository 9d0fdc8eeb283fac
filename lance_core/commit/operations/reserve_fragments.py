"""ReserveFragments: ids are set aside for fragments to come."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import last_fragment_id, reserve_until
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.ReserveFragments, context: Context) -> None:
    """Count on; the ids are the last `num_fragments` up to the new highest one."""
    reserve_until(message, last_fragment_id(message) + operation.num_fragments)
