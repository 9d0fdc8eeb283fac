"""Stable row ids: one number per physical row of a fragment, which stays with the row when the row moves.

A sequence is a list of segments. A segment is a range, a range with holes, a range with a bitmap, or an
array.

Source: docs/format.md, "Row ids and lineage".
"""

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.proto import rowids_pb2
from lance_core.table.fragment import Fragment, Lineage

RowIds = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

_NOWHERE: Places = np.empty(0, dtype=np.int64)


def read_row_ids(fragment: Fragment) -> RowIds:
    """Return the row id of every physical row of a fragment, deleted rows included, in physical order.

    Raises:
        CorruptFileError: the stored ids contradict the format or the number of rows.
        UnsupportedFeatureError: the ids are in a file of their own, which `Fragment.lineage_file` names.
    """
    data, name = _inline(fragment)
    return decode_row_ids(data, fragment.physical_rows, name)


def decode_row_ids(data: bytes, num_rows: int, name: str) -> RowIds:
    """Decode a serialized sequence of exactly `num_rows` ids; `name` is for messages."""
    row_ids = decode_first_row_ids(data, num_rows, name)
    _require_complete(num_rows - len(row_ids), num_rows, name)
    return row_ids


def decode_first_row_ids(data: bytes, num_rows: int, name: str) -> RowIds:
    """Decode a sequence of at most `num_rows` ids, as new fragments have it whose last rows
    have no id yet.
    """
    parts: list[RowIds] = []
    left = num_rows
    for segment in _parse(data, name).segments:
        part = decode_segment(segment, left, name)
        left -= len(part)
        parts.append(part)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def find_row_ids(fragment: Fragment, wanted: RowIds) -> tuple[Places, Places]:
    """Find row ids in a fragment.

    Ranges, which hold most ids, are searched without expanding them.

    Args:
        fragment: the fragment.
        wanted: row ids, sorted and unique.

    Returns:
        For each id that was found, its index in `wanted`, and the physical row with this id.

    Raises:
        LanceError: an error of `read_row_ids`.
    """
    data, name = _inline(fragment)
    places, rows = [_NOWHERE], [_NOWHERE]
    num_rows = fragment.physical_rows
    left = num_rows
    for segment in _parse(data, name).segments:
        before = num_rows - left
        if segment.WhichOneof("segment") == "range":
            start, end = segment.range.start, segment.range.end
            _check_length(end - start, left, name)
            left -= end - start
            first, last = np.searchsorted(wanted, np.array([start, end], dtype=np.uint64))
            places.append(np.arange(first, last))
            rows.append((wanted[first:last] - np.uint64(start)).astype(np.int64) + before)
        else:
            values = decode_segment(segment, left, name)
            left -= len(values)
            found, held = find_values(values, wanted)
            places.append(found)
            rows.append(held + before)
    _require_complete(left, num_rows, name)
    return np.concatenate(places), np.concatenate(rows)


def find_values(values: RowIds, wanted: RowIds) -> tuple[Places, Places]:
    """Find `values` in `wanted`, which is sorted and unique.

    Returns:
        For each value that was found, its index in `wanted` and its index in `values`.
    """
    if not len(wanted):
        return _NOWHERE, _NOWHERE
    places = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    held = np.flatnonzero(wanted[places] == values)
    return places[held], held


def _inline(fragment: Fragment) -> tuple[bytes, str]:
    """Return the serialized sequence of a fragment, and its name for messages."""
    data = fragment.inline_lineage(Lineage.ROW_ID)
    name = f"row ids of fragment {fragment.id}"
    if data is None:
        raise UnsupportedFeatureError(f"{name} outside the manifest")
    return data, name


def _parse(data: bytes, name: str) -> rowids_pb2.RowIdSequence:
    try:
        return rowids_pb2.RowIdSequence.FromString(data)
    except DecodeError:
        raise CorruptFileError(f"{name} do not decode") from None


def _require_complete(left: int, num_rows: int, name: str) -> None:
    if left:
        raise CorruptFileError(f"{name} are not one per row", expected=num_rows, found=num_rows - left)


def decode_segment(segment: rowids_pb2.U64Segment, limit: int, name: str) -> RowIds:
    """Return the values of one segment, at most `limit`.

    The number of values is checked before memory for them is allocated.
    """
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
