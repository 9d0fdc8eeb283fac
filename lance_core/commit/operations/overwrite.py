"""Overwrite: the table gets other fragments and another schema. Also creates tables."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import add_rows
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table import feature_flags
from lance_core.table.bases import DatasetBasePath, check_new_base


def apply(message: table_pb2.Manifest, operation: Transaction.Overwrite, context: Context) -> None:
    """Replace everything except settings and metadata of the table. Counters of ids continue.

    Raises:
        UnsupportedFeatureError: the table never reuses field ids.
        InvalidInputError: the operation has base paths, and the table exists; or see `check_new_base`.
    """
    if message.writer_feature_flags & feature_flags.FIELD_IDS_NEVER_REUSED:
        raise UnsupportedFeatureError("overwriting a table that never reuses field ids")
    if operation.initial_bases:
        if not context.is_new:
            raise InvalidInputError("base paths in an overwrite", expected="a new table")
        known: list[DatasetBasePath] = []
        for base in map(DatasetBasePath.from_message, operation.initial_bases):
            check_new_base(base, known)
            known.append(base)
        message.base_paths.extend(operation.initial_bases)
    context.indices.replace(None)
    del message.fields[:], message.fragments[:]
    message.fields.extend(operation.schema)
    message.schema_metadata.clear()
    for key, data in operation.schema_metadata.items():
        message.schema_metadata[key] = data
    for key, text in operation.config_upsert_values.items():
        message.config[key] = text
    version = context.settings.file_version or _version_of_files(operation)
    if version is not None:
        message.data_format.version = version.name
    message.data_format.file_format = "lance"
    add_rows(message, operation.fragments, context)


def _version_of_files(operation: Transaction.Overwrite) -> FileVersion | None:
    for fragment in operation.fragments:
        for file in fragment.files:
            return FileVersion.from_numbers(file.file_major_version, file.file_minor_version, file=file.path)
    return None
