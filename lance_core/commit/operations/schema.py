"""Replacing the schema of the next manifest."""

from collections.abc import Iterable

from lance_core.commit.operations.fragments import field_ids
from lance_core.errors import InvalidInputError
from lance_core.proto import file_pb2, table_pb2
from lance_core.table import feature_flags


def set_schema(message: table_pb2.Manifest, fields: Iterable[file_pb2.Field]) -> None:
    """Replace the fields.

    Raises:
        InvalidInputError: a field id appears twice, or the table never reuses field ids and the id was used
            before.
    """
    before = field_ids(message)
    given = list(fields)
    ids = [field.id for field in given]
    if len(set(ids)) != len(ids):
        raise InvalidInputError("field ids", expected="unique ones", found=ids)
    if message.writer_feature_flags & feature_flags.FIELD_IDS_NEVER_REUSED:
        new = set(ids) - before
        if new and min(new) <= message.max_allocated_field_id:
            raise InvalidInputError(
                "field id that was used before",
                expected=f"above {message.max_allocated_field_id}",
                found=min(new),
            )
        message.max_allocated_field_id = max([*new, message.max_allocated_field_id])
    del message.fields[:]
    message.fields.extend(given)
