"""Nested fields: a struct has no page, a list has a page of offsets into the items of the same batch.

Neither stores nulls: a null struct is read as a struct of its members' values, a null list as an empty list.
Source: docs/format.md, "0.1".
"""

from collections.abc import Sequence

import pyarrow as pa

from lance_core.encodings.v0_1.offsets import read_extents
from lance_core.encodings.v0_1.pages import Pages, Reader, Run


class StructReader:
    """Reader of structs."""

    def __init__(self, arrow_type: pa.DataType, children: Sequence[Reader]) -> None:
        self._type = arrow_type
        self._children = children

    @property
    def num_bytes(self) -> float:
        return sum(child.num_bytes for child in self._children)

    def read(self, run: Run) -> pa.Array:
        children = [child.read(run) for child in self._children]
        return pa.Array.from_buffers(self._type, run.num_items, [None], children=children)


class ListReader:
    """Reader of lists and large lists. The lengths of `pages` count lists."""

    def __init__(self, pages: Pages, arrow_type: pa.DataType, items: Reader) -> None:
        self._pages = pages
        self._type = arrow_type
        self._items = items
        self._bits = 64 if pa.types.is_large_list(arrow_type) else 32
        pages.check_sizes(self._bits, extra_items=1)

    @property
    def num_bytes(self) -> float:
        return float(self._pages.lengths.sum()) * self._bits / 8 + self._items.num_bytes

    def read(self, run: Run) -> pa.Array:
        extents = read_extents(self._pages, run, self._bits)
        offsets = extents.arrow_offsets(self._bits)
        items = self._items.read(Run(run.first_batch, extents.firsts, extents.lasts - extents.firsts))
        return pa.Array.from_buffers(self._type, run.num_items, [None, offsets], children=[items])


class NullReader:
    """Reader of a field of the null type, or of a field that the file lacks."""

    num_bytes = 0.0

    def __init__(self, arrow_type: pa.DataType, pages: Pages | None = None) -> None:
        self._type = arrow_type
        self._pages = pages
        if pages is not None:
            pages.check_sizes(0)

    def read(self, run: Run) -> pa.Array:
        if self._pages is not None:
            self._pages.check_run(run)
        return pa.nulls(run.num_items, self._type)
