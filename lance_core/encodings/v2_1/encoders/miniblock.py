"""Encoder of the mini-block layout: encoded values and levels in chunks of some KiB.

Source: docs/format.md, "Mini-block pages".
"""

from lance_core import kernels
from lance_core.encodings.v2_1.chunks import Chunks
from lance_core.encodings.v2_1.encoders.encoded_page import EncodedPage
from lance_core.encodings.v2_1.encoders.page_levels import Coding, Structure
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.storage.base import Bytes

_NO_CODING: Coding = ("flat", 0)


def mini_block_page(
    structure: Structure,
    chunks: Chunks,
    is_2_2: bool,
    dictionary: tuple[Bytes, proto.CompressiveEncoding, int] | None = None,
) -> EncodedPage:
    """Assemble a page.

    Args:
        structure: the levels.
        chunks: the values, or the indices of a dictionary page.
        is_2_2: whether the file is 2.2 rather than 2.1.
        dictionary: the items as a block, their encoding and their number.

    Raises:
        ChunkOverflow: a chunk exceeds the limits of this file version.
    """
    num_chunks = len(chunks.counts)
    layout = proto.MiniBlockLayout(
        value_compression=chunks.encoding,
        layers=structure.layers,
        num_buffers=len(chunks.streams),
        num_items=structure.num_values,
        has_large_chunk=is_2_2,
    )
    rep, def_ = structure.rep, structure.def_
    rep_coding = def_coding = _NO_CODING
    if rep is not None:
        rep_coding, encoding = rep.coding(is_2_2, num_chunks)
        layout.rep_compression.CopyFrom(encoding)
        layout.repetition_index_depth = 1
    if def_ is not None:
        def_coding, encoding = def_.coding(is_2_2, num_chunks)
        layout.def_compression.CopyFrom(encoding)
    words, data, repetition_index = kernels.assemble_chunks(
        chunks.streams,
        chunks.counts,
        structure.rep_data,
        rep_coding,
        structure.def_data,
        def_coding,
        structure.max_rep,
        structure.max_visible,
        is_2_2,
    )
    buffers: list[Bytes] = [memoryview(words), memoryview(data)]
    if dictionary is not None:
        items, encoding, num_items = dictionary
        buffers.append(items)
        layout.dictionary.CopyFrom(encoding)
        layout.num_dictionary_items = num_items
    if rep is not None:
        buffers.append(memoryview(repetition_index))
    return EncodedPage(
        proto.PageLayout(mini_block_layout=layout), buffers, structure.page_length, structure.num_rows
    )
