"""Placement of blobs of version 2 in a 2.2 file. Large values are written to side files when they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_1.encoders.blob import PLACED
from lance_core.errors import InvalidInputError
from lance_core.file.external_blobs import ExternalBlobs
from lance_core.file.side_files import BlobSizes, SideFiles
from lance_core.schema import Field
from lance_core.storage.base import ReadableFile

OpenUri = Callable[[str], ReadableFile]


def place_blobs(
    values: pa.StructArray,
    field: Field,
    sizes: BlobSizes,
    side_files: SideFiles | None,
    external: ExternalBlobs,
) -> pa.Array:
    """Place the values of a blob field. Values are structs of data or a URI; the result has the type
    `PLACED`.

    Without side files all data stays in the data file.

    Raises:
        InvalidInputError: a value has neither data nor a URI, or both, or its URI is not absolute.
        UnsupportedFeatureError: a value has a URI that `external` does not allow.
        StorageError: the storage failed.
    """
    members = dict(zip((child.name for child in values.type), values.flatten(), strict=True))
    data, uri = members["data"], members["uri"]
    is_outside = uri.is_valid()
    if not pc.xor(data.is_valid(), is_outside).equals(values.is_valid()):
        raise InvalidInputError("a blob must have exactly one of data and URI", column=field.name)
    count = len(values)
    ends = (
        np.frombuffer(data.buffers()[1], "<i8", count + 1, 8 * data.offset) if count else np.zeros(1, "<i8")
    )
    lengths = np.where(np.asarray(data.is_valid()), np.diff(ends), 0)
    numbers = {name: np.zeros(count, PLACED.field(name).type.to_pandas_dtype()) for name in _NUMBERS}
    if uri.null_count != len(uri):
        numbers["kind"][np.asarray(is_outside)] = _OUTSIDE
        stored = external.places(uri.drop_null().to_pylist(), field.name)
        numbers["blob_id"][np.asarray(is_outside)] = [number for number, _ in stored]
        uri = pc.replace_with_mask(uri, is_outside, pa.array([text for _, text in stored], uri.type))
        for name in ("position", "size"):
            if name in members:
                numbers[name][:] = np.asarray(pc.if_else(is_outside, members[name], None).fill_null(0))
    large = np.flatnonzero(lengths > min(sizes.inline, sizes.shared)) if side_files is not None else ()
    for row in large:
        assert side_files is not None
        start, end = ends[row : row + 2].tolist()
        place = side_files.write(data.buffers()[2].slice(start, end - start), sizes)
        for name, number in zip(_NUMBERS, (*place, end - start), strict=True):
            numbers[name][row] = number
    if len(large):
        data = pc.if_else(pa.array(numbers["kind"] == 0), data, pa.scalar(b"", data.type))
    placed = {"data": data.fill_null(b""), "uri": uri.fill_null("")}
    placed |= {name: pa.array(each) for name, each in numbers.items()}
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays([placed[each.name] for each in PLACED], fields=list(PLACED), mask=mask)


def taken_in(values: pa.StructArray, field: Field, open_uri: OpenUri) -> Iterator[pa.StructArray]:
    """Yield the values with data instead of URIs. A value with a URI is yielded alone, and read when its turn
    comes.

    Raises:
        InvalidInputError: a range outside its file.
        StorageError: a file that cannot be read.
    """
    places = np.flatnonzero(np.asarray(values.field("uri").is_valid()) & np.asarray(values.is_valid()))
    done = 0
    for row in places.tolist():
        if row > done:
            yield values.slice(done, row - done)
        yield _read(values[row].as_py(), values.type, field, open_uri)
        done = row + 1
    if done < len(values) or not len(values):
        yield values.slice(done)


def _read(
    value: Mapping[str, Any], arrow_type: pa.StructType, field: Field, open_uri: OpenUri
) -> pa.StructArray:
    if value["data"] is not None:
        raise InvalidInputError("a blob must have exactly one of data and URI", column=field.name)
    with open_uri(value["uri"]) as file:
        position = value.get("position") or 0
        size = value.get("size") or max(0, file.size - position)
        if position + size > file.size:
            raise InvalidInputError(
                f"range of the blob {value['uri']!r}",
                column=field.name,
                expected=f"within {file.size} bytes",
                found=f"[{position}, {position + size})",
            )
        data = bytes(file.read(position, size))
    children = [
        pa.array([data], pa.large_binary()) if child.name == "data" else pa.nulls(1, child.type)
        for child in arrow_type
    ]
    return pa.StructArray.from_arrays(children, fields=list(arrow_type))


_OUTSIDE = 3
"""Kind of a blob outside the dataset."""
_NUMBERS = ("kind", "position", "blob_id", "size")
