"""Stable row ids: a number per physical row of a fragment that stays with the row when it moves.

A sequence is a list of segments, each a range, a range with holes, a range with a bitmap or an array.
Source: Lance table format, "RowIdSequence"; docs/format.md.
"""

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import rowids_pb2
from lance_core.table.fragment import Fragment, Lineage

RowIds = npt.NDArray[np.uint64]


def read_row_ids(fragment: Fragment) -> RowIds:
    """The row id of every physical row of a fragment, deleted ones included, in physical order.

    Raises:
        CorruptFileError: the sequence contradicts the format or the number of rows.
        UnsupportedFeatureError: the ids are not in the manifest, see `Fragment.lineage_file`.
    """
    data = fragment.inline_lineage(Lineage.ROW_ID)
    name = f"row ids of fragment {fragment.id}"
    if data is None:
        raise UnsupportedFeatureError(f"{name} outside the manifest")
    return decode_row_ids(data, fragment.physical_rows, name)


def decode_row_ids(data: bytes, num_rows: int, name: str) -> RowIds:
    """Decode a serialized sequence of `num_rows` ids; `name` is for messages."""
    try:
        sequence = rowids_pb2.RowIdSequence.FromString(data)
    except DecodeError:
        raise CorruptFileError(f"{name} do not decode") from None
    parts: list[RowIds] = []
    left = num_rows
    for segment in sequence.segments:
        part = decode_segment(segment, left, name)
        left -= len(part)
        parts.append(part)
    if left:
        raise CorruptFileError(f"{name} are not one per row", expected=num_rows, found=num_rows - left)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def find_row_ids(row_ids: RowIds, wanted: RowIds) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where ids occur: positions in the sorted unique `wanted`, and rows in `row_ids` that hold them."""
    if not len(wanted):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    positions = np.minimum(np.searchsorted(wanted, row_ids), len(wanted) - 1)
    rows = np.flatnonzero(wanted[positions] == row_ids)
    return positions[rows], rows


def decode_segment(segment: rowids_pb2.U64Segment, limit: int, name: str) -> RowIds:
    """The at most `limit` values of one segment. The number is checked before memory is taken for them."""
    match segment.WhichOneof("segment"):
        case "range":
            _check_length(segment.range.end - segment.range.start, limit, name)
            return _range(segment.range.start, segment.range.end)
        case "range_with_holes":
            span = segment.range_with_holes
            holes = _array(span.holes, name)
            _check_length(span.end - span.start - len(holes), limit, name)
            values = _range(span.start, span.end)
            kept = values[~np.isin(values, holes)]
            if len(kept) != len(values) - len(holes):
                raise CorruptFileError(f"{name}: holes lie outside their range or appear twice")
            return kept
        case "range_with_bitmap":
            return _bitmap(segment.range_with_bitmap, limit, name)
        case "sorted_array":
            return _limited(_array(segment.sorted_array, name), limit, name)
        case "array":
            return _limited(_array(segment.array, name), limit, name)
    raise UnsupportedFeatureError(f"kind of segment in {name}")


def _range(start: int, end: int) -> RowIds:
    return np.arange(end - start, dtype=np.uint64) + np.uint64(start)


def _bitmap(segment: rowids_pb2.U64Segment.RangeWithBitmap, limit: int, name: str) -> RowIds:
    length = segment.end - segment.start
    if length < 0 or (length + 7) // 8 != len(segment.bitmap):
        raise CorruptFileError(
            f"{name}: bitmap has a wrong size", expected=(length + 7) // 8, found=len(segment.bitmap)
        )
    bits = np.unpackbits(np.frombuffer(segment.bitmap, dtype=np.uint8), bitorder="little")
    if bits[length:].any():
        raise CorruptFileError(f"{name}: bitmap goes on after its range")
    return _limited(np.flatnonzero(bits).astype(np.uint64) + np.uint64(segment.start), limit, name)


def _array(array: rowids_pb2.EncodedU64Array, name: str) -> RowIds:
    kind = array.WhichOneof("array")
    if kind is None:
        return np.empty(0, dtype=np.uint64)
    encoded = array.u64_array.values if kind == "u64_array" else getattr(array, kind).offsets
    base = 0 if kind == "u64_array" else getattr(array, kind).base
    dtype = {"u16_array": "<u2", "u32_array": "<u4", "u64_array": "<u8"}[kind]
    if len(encoded) % np.dtype(dtype).itemsize:
        raise CorruptFileError(f"{name}: array has a partial value", found=f"{len(encoded)} bytes of {dtype}")
    offsets = np.frombuffer(encoded, dtype=dtype).astype(np.uint64)
    if len(offsets) and int(offsets.max()) + base >= 1 << 64:
        raise CorruptFileError(f"{name} have more than 64 bits")
    return offsets + np.uint64(base)


def _limited(values: RowIds, limit: int, name: str) -> RowIds:
    _check_length(len(values), limit, name)
    return values


def _check_length(length: int, limit: int, name: str) -> None:
    if not 0 <= length <= limit:
        raise CorruptFileError(f"{name} are not one per row", expected=f"at most {limit} more", found=length)
