"""Append: more fragments."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import add_rows
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.Append, context: Context) -> None:
    """Add the fragments. Indices do not cover them."""
    add_rows(message, operation.fragments, context)
