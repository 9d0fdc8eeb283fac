"""Project: columns are dropped, renamed or reordered, or change their nullability."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import field_ids
from lance_core.commit.operations.schema import set_schema
from lance_core.errors import InvalidInputError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table.fragment import HIDDEN


def apply(message: table_pb2.Manifest, operation: Transaction.Project, context: Context) -> None:
    """Replace the schema; drop data files and indices without remaining fields.

    Raises:
        InvalidInputError: the schema has a field that the table lacks.
    """
    ids = {field.id for field in operation.schema}
    if not ids <= field_ids(message):
        raise InvalidInputError(
            "fields of a projection", expected="those of the table", found=sorted(ids - field_ids(message))
        )
    set_schema(message, operation.schema)
    needed = ids | HIDDEN
    for fragment in message.fragments:
        kept = [file for file in fragment.files if needed.intersection(file.fields)]
        if len(kept) < len(fragment.files):
            del fragment.files[:]
            fragment.files.extend(kept)
    context.indices.retain(ids, (fragment.id for fragment in message.fragments))
