"""Merge: columns were added to all fragments, or changed in them."""

from lance_core.commit.lineage_encoding import one_version
from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import field_ids, with_parents
from lance_core.commit.operations.schema import set_schema
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.Merge, context: Context) -> None:
    """Replace the schema and all fragments.

    Raises:
        InvalidInputError: fragments are missing or new, or have another number of rows.
        UnsupportedFeatureError: row versions of a fragment are in a hidden column.
    """
    before = {fragment.id: fragment for fragment in message.fragments}
    _require_same(before, operation)
    merged = []
    for given in operation.fragments:
        fragment = table_pb2.DataFragment()
        fragment.CopyFrom(given)
        old = before[fragment.id]
        if list(fragment.files) != list(old.files):
            changed = _moved_fields(old, fragment)
            if changed:
                context.indices.forget([fragment.id], with_parents(message, changed))
            if context.stable_row_ids:
                if fragment.HasField("column_last_updated_at_versions"):
                    raise UnsupportedFeatureError("new columns beside versions of rows in a column")
                rows = fragment.physical_rows
                fragment.inline_last_updated_at_versions = one_version(context.version, rows)
        merged.append(fragment)
    del message.fragments[:]
    message.fragments.extend(sorted(merged, key=lambda fragment: fragment.id))
    context.changed.extend(message.fragments)
    set_schema(message, operation.schema)
    message.schema_metadata.clear()
    for key, data in operation.schema_metadata.items():
        message.schema_metadata[key] = data
    context.indices.retain(field_ids(message), before)


def _require_same(before: dict[int, table_pb2.DataFragment], operation: Transaction.Merge) -> None:
    given = [fragment.id for fragment in operation.fragments]
    if sorted(given) != sorted(before):
        raise InvalidInputError(
            "fragments of a merge",
            expected="those of the table",
            found=sorted(set(given) ^ set(before)) or "some twice",
        )
    for fragment in operation.fragments:
        rows = before[fragment.id].physical_rows
        if fragment.physical_rows != rows:
            raise InvalidInputError(
                f"rows of fragment {fragment.id} in a merge", expected=rows, found=fragment.physical_rows
            )


def _moved_fields(old: table_pb2.DataFragment, new: table_pb2.DataFragment) -> list[int]:
    """Return the fields whose values are in another file than before."""
    paths = _paths(new)
    return [field for field, path in _paths(old).items() if paths.get(field, path) != path]


def _paths(fragment: table_pb2.DataFragment) -> dict[int, tuple[str, int]]:
    """Return the path and base id of the file of each field."""
    return {
        field: (file.path, file.base_id if file.HasField("base_id") else -1)
        for file in fragment.files
        for field in file.fields
        if field >= 0
    }
