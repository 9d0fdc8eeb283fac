"""Encoding of the row ids and row versions of fragments in tables with stable row ids.

Source: docs/format.md, "Row ids and lineage".
"""

import numpy as np

from lance_core.proto import rowids_pb2
from lance_core.table.row_ids import RowIds
from lance_core.table.row_versions import Versions

_MAX_ROW_ID = (1 << 64) - 1
_SEGMENT_BYTES = 24
"""Estimated bytes of a segment without its values, see `encode_row_ids`."""


def consecutive_row_ids(first: int, num_rows: int) -> bytes:
    """Return the serialized sequence of the row ids `first`, `first + 1`, ..., `first + num_rows - 1`."""
    return rowids_pb2.RowIdSequence(segments=[_range(first, first + num_rows)]).SerializeToString()


def followed_by(sequence: bytes, first: int, num_rows: int) -> bytes:
    """Return a serialized sequence of row ids, extended by the `num_rows` ids from `first` on."""
    message = rowids_pb2.RowIdSequence.FromString(sequence)
    message.segments.append(_range(first, first + num_rows))
    return message.SerializeToString()


def encode_row_ids(row_ids: RowIds) -> bytes:
    """Serialize the row ids of all physical rows, in physical order.

    The result has one segment. Consecutive ids become a range. Other ascending ids become the smallest of a
    range with holes, a range with a bitmap, and a sorted array. All other ids become an array. The reference
    makes the same choices.
    """
    if not len(row_ids):
        return consecutive_row_ids(0, 0)
    segment = rowids_pb2.U64Segment()
    if len(row_ids) > 1 and not bool(np.all(row_ids[1:] > row_ids[:-1])):
        segment.array.CopyFrom(_array(row_ids))
        return rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()
    start, end = int(row_ids[0]), int(row_ids[-1]) + 1
    num_holes = end - start - len(row_ids)
    sizes = {
        "holes": _SEGMENT_BYTES + 4 * num_holes,
        "bitmap": _SEGMENT_BYTES + (end - start + 7) // 8,
        "array": _SEGMENT_BYTES + 2 * len(row_ids),
    }
    kind = min(sizes, key=lambda name: sizes[name])
    if end > _MAX_ROW_ID:  # the exclusive end of a range does not fit in 64 bits
        kind = "array"
    elif not num_holes:
        kind = "range"
    if kind == "range":
        segment = _range(start, end)
    elif kind == "array":
        segment.sorted_array.CopyFrom(_array(row_ids))
    else:
        present = np.zeros(end - start, dtype=bool)
        present[(row_ids - np.uint64(start)).astype(np.int64)] = True
        if kind == "bitmap":
            bitmap = np.packbits(present, bitorder="little").tobytes()
            segment.range_with_bitmap.CopyFrom(
                rowids_pb2.U64Segment.RangeWithBitmap(start=start, end=end, bitmap=bitmap)
            )
        else:
            holes = np.flatnonzero(~present).astype(np.uint64) + np.uint64(start)
            segment.range_with_holes.CopyFrom(
                rowids_pb2.U64Segment.RangeWithHoles(start=start, end=end, holes=_array(holes))
            )
    return rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()


def one_version(version: int, num_rows: int) -> bytes:
    """Return the serialized sequence of `num_rows` rows that were all created, or changed, by `version`."""
    return rowids_pb2.RowDatasetVersionSequence(runs=[_run(version, num_rows)]).SerializeToString()


def encode_versions(versions: Versions) -> bytes:
    """Serialize the versions of all physical rows, in physical order."""
    if not len(versions):
        return rowids_pb2.RowDatasetVersionSequence().SerializeToString()
    starts = np.flatnonzero(np.concatenate([[True], versions[1:] != versions[:-1]]))
    lengths = np.diff(np.append(starts, len(versions)))
    runs = [
        _run(version, rows) for version, rows in zip(versions[starts].tolist(), lengths.tolist(), strict=True)
    ]
    return rowids_pb2.RowDatasetVersionSequence(runs=runs).SerializeToString()


def _run(version: int, num_rows: int) -> rowids_pb2.RowDatasetVersionRun:
    return rowids_pb2.RowDatasetVersionRun(span=_range(0, num_rows), version=version)


def _range(start: int, end: int) -> rowids_pb2.U64Segment:
    return rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=start, end=end))


def _array(values: RowIds) -> rowids_pb2.EncodedU64Array:
    array = rowids_pb2.EncodedU64Array()
    base = int(values.min())
    span = int(values.max()) - base
    offsets = values - np.uint64(base)
    if span < 1 << 16:
        array.u16_array.base, array.u16_array.offsets = base, offsets.astype("<u2").tobytes()
    elif span < 1 << 32:
        array.u32_array.base, array.u32_array.offsets = base, offsets.astype("<u4").tobytes()
    else:
        array.u64_array.values = values.astype("<u8").tobytes()
    return array
