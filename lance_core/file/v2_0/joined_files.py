"""Small files of 2.0 in memory, of which a column of all files is decoded at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.file_pages import Room
from lance_core.encodings.picking import Int64s
from lance_core.encodings.v2_0.file_pages import PagesDecoder
from lance_core.encodings.values import least_bytes
from lance_core.errors import UnsupportedFeatureError
from lance_core.file import joined_files
from lance_core.file.joined_files import AlikePages, Places
from lance_core.kernels import Block, CorruptData
from lance_core.schema.fields import Field
from lance_core.schema.physical_columns import nodes


class JoinedFiles(joined_files.JoinedFiles):
    """Files of 2.0. Structs and lists own columns, too."""

    @staticmethod
    def _owners(field: Field) -> Sequence[int]:
        return [node.id for node in nodes(field)]

    @staticmethod
    def _parse(places: Places) -> tuple[list[tuple[int, bytes]], Block]:
        return kernels.parse_file_arrays(*places)

    @staticmethod
    def _decode(field: Field, pages: Mapping[int, AlikePages], num_rows: Int64s, most_bytes: int) -> pa.Array:
        return _Nodes(pages, Room(most_bytes)).decode(field, num_rows)


class _Nodes:
    """The fields at and below a top-level column, with the pages of those that own a column."""

    def __init__(self, pages: Mapping[int, AlikePages], room: Room) -> None:
        self._pages = pages
        self._room = room

    def decode(self, field: Field, num_values: Int64s) -> pa.Array:
        """Return the values of a field, of which the files have `num_values` each."""
        arrow_type, total = field.arrow_type, int(num_values.sum())
        if pa.types.is_struct(arrow_type) and not field.is_packed:
            if field.id in self._pages:
                self._decoder(field, num_values).check_struct()
            children = [self.decode(child, num_values) for child in field.children]
            return pa.Array.from_buffers(arrow_type, total, [None], children=children)
        if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
            return self._lists(field, num_values)
        if field.is_blob or field.is_blob_descriptor or (field.children and not field.is_packed):
            raise UnsupportedFeatureError(f"type {field.logical_type!r} in several 2.0 files")
        if field.id not in self._pages:
            self._room.take(int(total * least_bytes(arrow_type)))
            return pa.nulls(total, arrow_type)
        return self._decoder(field, num_values).array(arrow_type)

    def _lists(self, field: Field, num_values: Int64s) -> pa.Array:
        if field.id not in self._pages:
            raise UnsupportedFeatureError("lists without ends")
        bits = 64 if pa.types.is_large_list(field.arrow_type) else 32
        ends = self._decoder(field, num_values).list_ends(bits)
        items = self.decode(field.children[0], ends.sizes)
        buffers = [ends.validity, ends.offsets]
        return pa.Array.from_buffers(field.arrow_type, int(num_values.sum()), buffers, children=[items])

    def _decoder(self, field: Field, num_values: Int64s) -> PagesDecoder:
        """Return the decoder of the pages of a field, which have `num_values` each."""
        _, layout, pages = self._pages[field.id]
        if (pages.num_rows != num_values).any():
            raise CorruptData("pages that do not add up to the rows of their file")
        return PagesDecoder(layout, pages, self._room)
