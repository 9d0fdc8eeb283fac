"""DataReplacement: files with other values of the same columns."""

from lance_core.commit.lineage_encoding import one_version
from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import with_parents
from lance_core.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction


def apply(message: table_pb2.Manifest, operation: Transaction.DataReplacement, context: Context) -> None:
    """Let each new file replace the file with the same fields. If no file has these fields, the new file is
    added.

    Raises:
        CommitConflictError: a fragment was removed; retryable.
        InvalidInputError: a new file shares only some fields with another file, or the new files have
            different fields.
        UnsupportedFeatureError: row versions of a fragment are in a hidden column.
    """
    fragments = {fragment.id: fragment for fragment in message.fragments}
    if len({tuple(each.new_file.fields) for each in operation.replacements}) > 1:
        raise InvalidInputError("new data files have different fields", expected="the same fields in all")
    fields = with_parents(
        message, {field for each in operation.replacements for field in each.new_file.fields}
    )
    for each in operation.replacements:
        if each.fragment_id not in fragments:
            raise CommitConflictError(f"fragment {each.fragment_id} was removed", retryable=True)
        fragment = fragments[each.fragment_id]
        _replace(fragment, each.new_file)
        if context.stable_row_ids:
            if fragment.HasField("column_last_updated_at_versions"):
                raise UnsupportedFeatureError("replacing data beside versions of rows in a column")
            rows = fragment.physical_rows
            fragment.inline_last_updated_at_versions = one_version(context.version, rows)
        context.indices.forget([fragment.id], fields)
        context.changed.append(fragment)


def _replace(fragment: table_pb2.DataFragment, new_file: table_pb2.DataFile) -> None:
    for file in fragment.files:
        if list(file.fields) == list(new_file.fields):
            file.CopyFrom(new_file)
            return
        if set(file.fields) & set(new_file.fields):
            raise InvalidInputError(
                f"fields of a file of fragment {fragment.id}",
                expected=list(file.fields),
                found=list(new_file.fields),
            )
    fragment.files.append(new_file)
