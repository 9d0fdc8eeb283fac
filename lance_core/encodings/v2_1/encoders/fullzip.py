"""Encoder of the full-zip layout: each value beside its levels, for values too large for chunks.

Source: docs/format.md, "Full-zip pages".
"""

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage
from lance_core.encodings.v2_1.encoders.page_levels import Structure
from lance_core.encodings.v2_1.encoders.variable_width import Text
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes


def zip_fixed_page(
    structure: Structure, rows: pa.Buffer, row_bytes: int, encoding: proto.CompressiveEncoding
) -> EncodedPage:
    """Encode a page of values of `row_bytes` each. Without levels the page is the plain array, without a
    copy.
    """
    layout = _layout(structure, encoding)
    layout.bits_per_value = 8 * row_bytes
    if structure.rep is None and structure.def_ is None:
        return _page(layout, structure, [rows.slice(0, structure.num_values * row_bytes)])
    data, index = kernels.zip_fixed(
        rows,
        row_bytes,
        structure.num_values,
        structure.rep_data,
        structure.def_data,
        layout.bits_rep,
        layout.bits_def,
        structure.max_visible,
        structure.max_rep,
    )
    buffers: list[Bytes] = [memoryview(data)]
    if structure.rep is not None:
        buffers.append(memoryview(index))
    return _page(layout, structure, buffers)


def zip_variable_page(structure: Structure, text: Text, encoding: proto.CompressiveEncoding) -> EncodedPage:
    """Encode a page of values of variable length, each with its length before it."""
    layout = _layout(structure, encoding)
    layout.bits_per_offset = text.offset_bits
    data, index = kernels.zip_variable(
        text.offsets,
        text.data,
        text.num_values,
        text.offset_bits,
        structure.rep_data,
        structure.def_data,
        layout.bits_rep,
        layout.bits_def,
        structure.max_visible,
        structure.max_rep,
    )
    return _page(layout, structure, [memoryview(data), memoryview(index)])


def _layout(structure: Structure, encoding: proto.CompressiveEncoding) -> proto.FullZipLayout:
    return proto.FullZipLayout(
        bits_rep=structure.rep.bits if structure.rep else 0,
        bits_def=structure.def_.bits if structure.def_ else 0,
        num_items=structure.num_entries,
        num_visible_items=structure.num_values,
        value_compression=encoding,
        layers=structure.layers,
    )


def _page(layout: proto.FullZipLayout, structure: Structure, buffers: list[Bytes]) -> EncodedPage:
    return EncodedPage(
        proto.PageLayout(full_zip_layout=layout), buffers, structure.page_length, structure.num_rows
    )
