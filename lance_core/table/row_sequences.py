"""The row ids and versions that new rows of a table with stable row ids begin with.

Source: Lance table format, "RowIdSequence", "Version sequences"; docs/format.md.
"""

from lance_core.proto import rowids_pb2


def consecutive_row_ids(first: int, num_rows: int) -> bytes:
    """The serialized sequence of the row ids `first`, `first + 1`, ..."""
    segment = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=first, end=first + num_rows))
    return rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()


def one_version(version: int, num_rows: int) -> bytes:
    """The serialized sequence of `num_rows` rows that were all made, or changed, by `version`."""
    span = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(end=num_rows))
    run = rowids_pb2.RowDatasetVersionRun(span=span, version=version)
    return rowids_pb2.RowDatasetVersionSequence(runs=[run]).SerializeToString()
