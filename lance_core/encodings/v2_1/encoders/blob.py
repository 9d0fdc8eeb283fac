"""Blob pages: descriptors of values that are in the file already (docs/format.md, "Blobs").

2.1 has positions and sizes. Version 2, of 2.2, also says what kind of place a value is in.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_1.encoders.encoded import EncodedPage, LeafColumn
from lance_core.encodings.v2_1.encoders.fullzip import zip_variable_page
from lance_core.encodings.v2_1.encoders.miniblock import mini_block_page
from lance_core.encodings.v2_1.encoders.packed import encode_packed, zip_packed
from lance_core.encodings.v2_1.encoders.shred import LeafRows
from lance_core.encodings.v2_1.encoders.structure import Structure, structure_of
from lance_core.proto import encodings_v2_1_pb2 as proto

_DESCRIPTOR = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
_ELSEWHERE = ("kind", "position", "size", "blob_id", "uri")
PLACED = pa.struct(
    [
        ("data", pa.large_binary()),
        ("kind", pa.uint8()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("blob_id", pa.uint32()),
        ("uri", pa.utf8()),
    ]
)
"""Blobs of version 2 that wait for their page: bytes of those that go into the data file (kind 0),
places of the others. Numbers of the former are 0, bytes of the latter empty; only whole values are null."""
_LEVEL_SHIFT = 16
"""A null has its definition level where a value has its position; lists, and so repetition, do not exist."""


def blob_values(values: pa.Array) -> list[pa.Buffer | None]:
    """Return the bytes of each value of large binaries, None if it is null."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, "<i8", len(values) + 1, 8 * values.offset)
    return [
        data.slice(begin, end - begin) if valid and end > begin else pa.py_buffer(b"") if valid else None
        for valid, begin, end in zip(
            values.is_valid().to_pylist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True
        )
    ]


def blob_v2_page(rows: LeafRows, column: LeafColumn, places: Sequence[tuple[int, int]]) -> EncodedPage:
    """Return a page of descriptors of version 2; nulls have none.

    Args:
        rows: structs of `PLACED`; their data is not read.
        column: what they belong to.
        places: position and size in the file of each value; (0, 0) for those that are empty or elsewhere.
    """
    structure = structure_of(rows, column.steps)
    known = np.array(places, "<u8").reshape(-1, 2)
    kind, position, size, blob_id, uri = (rows.values.field(name) for name in _ELSEWHERE)
    members = [
        kind,
        pa.array(known[:, 0] + np.asarray(position)),
        pa.array(known[:, 1] + np.asarray(size)),
        blob_id,
        uri,
    ]
    names = ["kind", "position", "size", "blob_id", "blob_uri"]
    descriptors = pa.StructArray.from_arrays(members, names, mask=rows.values.is_null())
    return zip_variable_page(structure, *zip_packed(descriptors))


def blob_page(rows: LeafRows, column: LeafColumn, places: Sequence[tuple[int, int]]) -> EncodedPage:
    """Return a page of descriptors.

    Args:
        rows: the values, which are not read.
        column: what they belong to.
        places: position and size in the file of each value; (0, 0) for empty and null ones.
    """
    structure = structure_of(rows, column.steps)
    descriptors = np.array(places, "<u8").reshape(-1, 2)
    if structure.def_ is not None:
        levels = np.frombuffer(structure.def_.data, "<u2").astype("<u8")
        descriptors[:, 0] += levels << _LEVEL_SHIFT
    members = [pa.array(np.ascontiguousarray(descriptors[:, k])) for k in (0, 1)]
    chunks = encode_packed(pa.StructArray.from_arrays(members, fields=list(_DESCRIPTOR)))
    plain = Structure(
        (proto.REPDEF_ALL_VALID_ITEM,),
        None,
        None,
        0,
        structure.num_entries,
        structure.num_entries,
        structure.num_entries,
        structure.num_rows,
        1,
    )
    inner = mini_block_page(plain, chunks, column.is_2_2)
    layout = proto.BlobLayout(inner_layout=inner.layout, layers=structure.layers)
    return EncodedPage(proto.PageLayout(blob_layout=layout), inner.buffers, inner.length, inner.num_rows)
