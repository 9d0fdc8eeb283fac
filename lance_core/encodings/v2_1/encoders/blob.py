"""Blob pages: descriptors of values that the file already contains.

In 2.1 a descriptor is a position and a size. In 2.2 (blobs of version 2) it also says where the value is: in
the data file, in a side file or at a URI. Source: docs/format.md, "Blobs".
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage, LeafColumn
from lance_core.encodings.v2_1.encoders.fullzip import zip_variable_page
from lance_core.encodings.v2_1.encoders.miniblock import mini_block_page
from lance_core.encodings.v2_1.encoders.packed_struct import encode_packed, zip_packed
from lance_core.encodings.v2_1.encoders.page_levels import Structure, structure_of
from lance_core.encodings.v2_1.encoders.shredding import LeafRows
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
"""Blobs of version 2 before their page is encoded. A value for the data file (kind 0) has its bytes here, and
its numbers are 0. Another value has its location here, and its bytes are empty. Members are never null, only
the whole value.
"""
_LEVEL_SHIFT = 16
"""Shift of the definition level of a null in the position of its descriptor. (The repetition level in the
lower bits is always 0, as blobs in lists do not exist here.)
"""


def blob_values(values: pa.Array) -> list[pa.Buffer | None]:
    """Return the bytes of each value of an array of large binaries; None for a null."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, "<i8", len(values) + 1, 8 * values.offset)
    return [
        data.slice(begin, end - begin) if valid and end > begin else pa.py_buffer(b"") if valid else None
        for valid, begin, end in zip(
            values.is_valid().to_pylist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True
        )
    ]


def blob_v2_page(rows: LeafRows, column: LeafColumn, places: Sequence[tuple[int, int]]) -> EncodedPage:
    """Encode a page of descriptors of version 2. A null has no descriptor.

    Args:
        rows: structs of `PLACED`; their data is not read.
        column: the leaf column of the rows.
        places: file position and size of each value; (0, 0) if it is empty or not in the data file.
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
    """Encode a page of descriptors of position and size.

    Args:
        rows: the values, which are not read.
        column: the leaf column of the rows.
        places: file position and size of each value; (0, 0) for empty values and nulls.
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
