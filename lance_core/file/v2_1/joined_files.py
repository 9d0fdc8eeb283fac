"""Small files of 2.1 and 2.2 in memory, of which a column of all files is decoded at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_1.layouts.layout import decode_file_pages
from lance_core.file import joined_files
from lance_core.file.joined_files import AlikePages, Places
from lance_core.file.v2_1.leaves import assemble, leaf_fields
from lance_core.kernels import Block, CorruptData
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import owns_column


class JoinedFiles(joined_files.JoinedFiles):
    """Files of 2.1 or 2.2. Only leaves own columns."""

    @staticmethod
    def _owners(field: Field) -> Sequence[int]:
        return [leaf.field_id for leaf in leaf_fields(field)]

    @staticmethod
    def _parse(places: Places) -> tuple[list[tuple[int, bytes]], Block]:
        return kernels.parse_file_pages(*places)

    @staticmethod
    def _decode(field: Field, pages: Mapping[int, AlikePages], num_rows: Int64s, most_bytes: int) -> pa.Array:
        slices = {}
        for leaf in leaf_fields(field):
            if leaf.field_id not in pages:
                continue
            kind, layout, alike = pages[leaf.field_id]
            if (alike.num_rows != num_rows * leaf.num_slots_per_row).any():
                raise CorruptData("pages that do not add up to the rows of their file")
            slice_ = decode_file_pages(kind, layout, leaf.type, alike, most_bytes)
            most_bytes -= slice_.array.get_total_buffer_size()
            length = slice_.layers[-1].length if slice_.layers else len(slice_.array)
            if length != num_rows.sum():
                raise CorruptData(f"pages of {length} rows")
            slices[leaf.field_id] = slice_
        if owns_column(field):
            return slices[field.id].array
        return assemble(field, slices)[0]
