"""Append: more fragments."""

from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.operations.context import Context
from lance_core.table.operations.fragments import add_rows


def apply(message: table_pb2.Manifest, operation: Transaction.Append, context: Context) -> None:
    """Add the fragments; indices do not cover them."""
    add_rows(message, operation.fragments, context)
