"""Restore: the table gets the content of an older version."""

from lance_core.commit.operations.context import Context
from lance_core.commit.operations.fragments import sort_fragments
from lance_core.errors import UnsupportedFeatureError
from lance_core.proto import table_pb2
from lance_core.proto.transaction_pb2 import Transaction
from lance_core.table import feature_flags


def apply(message: table_pb2.Manifest, operation: Transaction.Restore, context: Context) -> None:
    """Take everything from the older version, except the time and the counters, which never decrease.

    Raises:
        VersionNotFoundError: there is no such version.
        UnsupportedFeatureError: this package cannot write the older version, or only one of the versions has
            stable row ids.
    """
    old = context.read_version(operation.version)
    feature_flags.check_writable(old.reader_feature_flags, old.writer_feature_flags, old.name)
    if old.has_stable_row_ids != context.stable_row_ids:
        raise UnsupportedFeatureError(
            "restoring a version with stable row ids to a table without them, or the reverse", file=old.name
        )
    counters = table_pb2.Manifest(next_row_id=message.next_row_id, timestamp=message.timestamp)
    for name in ("max_fragment_id", "max_allocated_field_id"):
        if message.HasField(name):
            setattr(counters, name, getattr(message, name))
    never_reused = message.writer_feature_flags & feature_flags.FIELD_IDS_NEVER_REUSED
    message.CopyFrom(old.message)
    message.writer_feature_flags |= never_reused
    message.timestamp.CopyFrom(counters.timestamp)
    message.next_row_id = max(message.next_row_id, counters.next_row_id)
    for name in ("max_fragment_id", "max_allocated_field_id"):
        if counters.HasField(name):
            setattr(message, name, max(getattr(message, name), getattr(counters, name)))
    sort_fragments(message)
    context.indices.replace(old.index_section)
