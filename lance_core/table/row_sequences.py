"""The row ids and versions of rows in new fragments, of tables with stable row ids.

Source: Lance table format, "RowIdSequence", "Version sequences"; docs/format.md.
"""

import numpy as np

from lance_core.proto import rowids_pb2
from lance_core.table.row_ids import RowIds


def consecutive_row_ids(first: int, num_rows: int) -> bytes:
    """The serialized sequence of the row ids `first`, `first + 1`, ..."""
    segment = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=first, end=first + num_rows))
    return rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()


def encode_row_ids(ids: RowIds) -> bytes:
    """The serialized sequence of given row ids, in this order."""
    segments = [_segment(ids)] if len(ids) else []
    return rowids_pb2.RowIdSequence(segments=segments).SerializeToString()


def _segment(ids: RowIds) -> rowids_pb2.U64Segment:
    """A range where there are no gaps, else what takes fewer bytes: a bitmap of a range or an array."""
    first, last = int(ids.min()), int(ids.max())
    span = last + 1 - first
    array, num_bytes = _array(ids, first, last)
    if (ids[1:] <= ids[:-1]).any():
        return rowids_pb2.U64Segment(array=array)
    if span == len(ids):
        return rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=first, end=last + 1))
    if (span + 7) // 8 >= num_bytes:
        return rowids_pb2.U64Segment(sorted_array=array)
    bits = np.zeros(span, dtype=np.uint8)
    bits[(ids - np.uint64(first)).astype(np.int64)] = 1
    bitmap = np.packbits(bits, bitorder="little").tobytes()
    return rowids_pb2.U64Segment(
        range_with_bitmap=rowids_pb2.U64Segment.RangeWithBitmap(start=first, end=last + 1, bitmap=bitmap)
    )


def _array(ids: RowIds, first: int, last: int) -> tuple[rowids_pb2.EncodedU64Array, int]:
    """The ids as offsets from the smallest one in as few bytes as possible, and how many these are."""
    encoded = rowids_pb2.EncodedU64Array()
    if last - first >= 1 << 32:
        encoded.u64_array.values = ids.astype("<u8").tobytes()
        return encoded, 8 * len(ids)
    narrow = last - first < 1 << 16
    offsets = (ids - np.uint64(first)).astype("<u2" if narrow else "<u4")
    array = encoded.u16_array if narrow else encoded.u32_array
    array.base, array.offsets = first, offsets.tobytes()
    return encoded, offsets.nbytes


def one_version(version: int, num_rows: int) -> bytes:
    """The serialized sequence of `num_rows` rows that were all made, or changed, by `version`."""
    span = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(end=num_rows))
    run = rowids_pb2.RowDatasetVersionRun(span=span, version=version)
    return rowids_pb2.RowDatasetVersionSequence(runs=[run]).SerializeToString()
