"""Pages of 0.1 files in words and sizes, for people who inspect a file."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_core.encodings.description import LayoutDescription
from lance_core.encodings.v0_1.pages import Numbers, Pages
from lance_core.encodings.v0_1.plain import PlainReader
from lance_core.encodings.v0_1.var_binary import VarBinaryReader
from lance_core.encodings.values import offset_bits


class PageDescription(NamedTuple):
    """One page: its number of items, its bytes in the file, and its layout."""

    num_items: int
    num_bytes: int
    layout: LayoutDescription


def describe_pages(pages: Pages, arrow_type: pa.DataType) -> list[PageDescription]:
    """Describe the pages of a field of this type, which must not be a struct.

    Raises:
        CorruptFileError: a page or its values leave the file.
    """
    layout, num_bytes = _describe(pages, arrow_type)
    return [
        PageDescription(num_items, size, layout)
        for num_items, size in zip(pages.lengths.tolist(), num_bytes.tolist(), strict=True)
    ]


def _describe(pages: Pages, arrow_type: pa.DataType) -> tuple[LayoutDescription, Numbers]:
    if pa.types.is_null(arrow_type):
        return LayoutDescription("nothing", {}, ()), np.zeros_like(pages.lengths)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        bits = 64 if pa.types.is_large_list(arrow_type) else 32
        return _layout("list offsets", bits), (pages.lengths + 1) * (bits // 8)
    if offset_bits(arrow_type):
        return _layout("var-binary", 64), VarBinaryReader(pages, arrow_type, nullable=True).page_bytes()
    if pa.types.is_dictionary(arrow_type):
        keys = PlainReader(pages, arrow_type.index_type)
        return _layout("dictionary", keys.bits), keys.page_bytes()
    plain = PlainReader(pages, arrow_type)
    return _layout("plain", plain.bits), plain.page_bytes()


def _layout(name: str, bits: int) -> LayoutDescription:
    return LayoutDescription(name, {"values": f"flat({bits})"}, ())
