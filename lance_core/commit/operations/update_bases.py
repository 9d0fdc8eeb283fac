"""UpdateBases: base paths are added to the table."""

from lance_core.commit.operations.context import Context
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.bases import DatasetBasePath, numbered


def apply(message: table_pb2.Manifest, operation: Transaction.UpdateBases, context: Context) -> None:
    """Add base paths. A base path with id 0 gets the next free id.

    Raises:
        InvalidInputError: another base path has the same id, name or path, or the path is not absolute.
    """
    known = map(DatasetBasePath.from_message, message.base_paths)
    new = numbered(map(DatasetBasePath.from_message, operation.new_bases), known)
    message.base_paths.extend(base.to_message() for base in new)
