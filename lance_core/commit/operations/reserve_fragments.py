"""ReserveFragments: fragment ids are reserved for fragments that a later commit adds."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import last_fragment_id, reserve_until
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.ReserveFragments, context: Context) -> None:
    """Raise the highest fragment id. The reserved ids are the last `num_fragments` up to the
    new highest id.
    """
    reserve_until(message, last_fragment_id(message) + operation.num_fragments)
