"""The fields of a 2.0 file as a tree of nodes. Each node has its own column.

A node reads its values in rounds (`encodings.v2_0.range_requests`): a list first reads the ends of its lists,
then the items of these lists.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import pyarrow as pa

from lance_core.encodings.picking import Picking
from lance_core.encodings.picking import together as picked_together
from lance_core.encodings.v2_0.column import check_column_encoding
from lance_core.encodings.v2_0.direct import direct_lists, direct_page
from lance_core.encodings.v2_0.encoding import Encoding, PageBuffers
from lance_core.encodings.v2_0.end_offsets import Extents, PickedExtents
from lance_core.encodings.v2_0.list import ListPage
from lance_core.encodings.v2_0.range_requests import Steps, nothing, together
from lance_core.encodings.v2_0.registry import parse_encoding, parse_page
from lance_core.encodings.v2_0.struct import check_struct_page
from lance_core.encodings.values import concat_arrays, offset_bits
from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.metadata import FileMetadata
from lance_core.file.page_errors import located
from lance_core.file.page_ranges import PageRange
from lance_core.file.row_runs import Rows
from lance_core.kernels import CorruptData, FlatPage, OffsetOverflow, PieceReader
from lance_core.proto import encodings_v2_0_pb2 as proto
from lance_core.schema.fields import Field

# Larger lists are read as ranges: the number of each item takes 8 bytes.
_MOST_PICKED_ITEMS = 1 << 20


class Columns:
    """The columns of a file by field."""

    def __init__(self, metadata: FileMetadata, columns: Mapping[int, int]) -> None:
        self.name = metadata.name
        self._metadata = metadata
        self._columns = columns

    def index(self, field: Field) -> int | None:
        """Return the index of the column of a field; None if the file has none."""
        return self._columns.get(field.id)

    def column(self, field: Field, index: int) -> "_Column":
        """Return the column with this index. It belongs to `field`."""
        return _Column(self._metadata, field, index)


class _Column:
    """The pages of one physical column."""

    def __init__(self, metadata: FileMetadata, field: Field, index: int) -> None:
        self._column = metadata.column(index)
        self._file_buffers = metadata.global_buffers
        self.file = metadata.name
        self.name = field.name
        expected = "blob" if field.is_blob_descriptor else "values"
        with located(self.file, self.name):
            check_column_encoding(self._column.encoding_type, self._column.encoding, expected)
        self.starts = [0, *accumulate(page.num_rows for page in self._column.pages)]
        """First value of each page, and the number of values at the end."""

    @property
    def num_values(self) -> int:
        return self.starts[-1]

    @property
    def num_pages(self) -> int:
        return len(self._column.pages)

    def page_ranges(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return (page, first, last) for each page that has some of the values `[start, end)`."""
        page = bisect_right(self.starts, start) - 1
        found = []
        while start < end:
            first, stop = self.starts[page], min(self.starts[page + 1], end)
            if stop > start:
                found.append((page, start - first, stop - first))
            start, page = stop, page + 1
        return found

    def num_page_values(self, page: int) -> int:
        return self._column.pages[page].num_rows

    def buffers(self, page: int) -> PageBuffers:
        return PageBuffers(self._column.pages[page].buffers, self._column.buffers, self._file_buffers)

    def description(self, page: int) -> proto.ArrayEncoding:
        with located(self.file, self.name, page):
            metadata = self._column.pages[page]
            return parse_page(metadata.encoding_type, metadata.encoding)

    @property
    def holds_lists(self) -> bool:
        """Whether the first page holds ends of lists, which the schema of the field does not tell."""
        return bool(self.num_pages) and self.description(0).WhichOneof("array_encoding") == "list"


class Node(ABC):
    """A field with its own column and the columns below it."""

    name: str
    num_rows: int | None
    """Number of values; None if the file stores nothing of the field, which is then null in any number of
    rows.
    """

    @abstractmethod
    def read(self, start: int, end: int) -> Steps[pa.Array]:
        """Read the values `[start, end)`. The range must not be empty."""

    @abstractmethod
    def row_columns(self) -> Iterator["Stored"]:
        """Return the nodes whose pages have one value per value of this field."""

    @property
    @abstractmethod
    def decoded_bytes(self) -> int:
        """Estimated bytes of all decoded values."""

    @property
    def can_pick(self) -> bool:
        """Whether every page can decode single values without reading all values."""
        return False

    def pick_by_page(self, rows: Rows) -> list[Picking[pa.Array]] | None:
        """Return pickings that decode ascending rows, one per page; None if a page cannot decode single
        values.

        A picking raises OffsetOverflow if there are too many items to find one by one, or too many for
        offsets.
        """
        return None


class Stored(Node):
    """A node with a column of its own, which is read page by page."""

    def __init__(self, column: _Column, leaf_type: pa.DataType, list_type: pa.DataType | None = None) -> None:
        self._column = column
        self._direct_types = leaf_type, list_type
        """Types of the values that the kernel decodes, and of the lists around them if there are any."""
        self.name = column.name
        self.num_rows = column.num_values
        self.starts = column.starts
        self._direct: list[FlatPage | None] = [None] * column.num_pages
        """The pages that `page_to_take` has returned."""

    def row_columns(self) -> Iterator["Stored"]:
        yield self

    @property
    def kept_bytes(self) -> int:
        """Bytes of values that the pages keep for later reads."""
        return 0

    def direct(self, reader: PieceReader, start: int, end: int) -> list[PageRange] | None:
        """Return the page ranges of rows `[start, end)`; None if the kernel cannot decode one of them."""
        leaf_type, list_type = self._direct_types
        page = bisect_right(self.starts, start) - 1
        found = []
        while start < end:
            first, stop = self.starts[page], self.starts[page + 1]
            if start < stop:
                direct = self._direct[page] or self.page_to_take(page)
                if direct is None:
                    return None
                last = stop if stop < end else end
                found.append(PageRange(direct, reader, start - first, last - first, leaf_type, list_type))
            start, page = stop, page + 1
        return found

    @abstractmethod
    def page_to_take(self, page: int) -> FlatPage | None:
        """Return a page for the kernel; None if the kernel cannot decode it."""

    def pick_by_page(self, rows: Rows) -> list[Picking[pa.Array]] | None:
        first, last = self._column_page(int(rows[0])), self._column_page(int(rows[-1]))
        pages = [(first, rows)]
        if first != last:
            numbers = np.searchsorted(self.starts, rows, side="right") - 1
            parts = np.split(rows, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
            pages = [(self._column_page(int(part[0])), part) for part in parts]
        if not all(self._can_pick(page) for page, _ in pages):
            return None
        return [self._pick(page, part) for page, part in pages]

    def _pick(self, page: int, rows: Rows) -> Picking[pa.Array]:
        """Decode single values of a page. Call it only if `_can_pick(page)`."""
        raise AssertionError(f"page {page} of {self.name} does not decode single values")

    @cached_property
    def can_pick(self) -> bool:
        """Whether every page can decode single values."""
        return all(self._can_pick(page) for page in range(self._column.num_pages))

    def _can_pick(self, page: int) -> bool:
        return False

    def _column_page(self, row: int) -> int:
        return bisect_right(self.starts, row) - 1


class _Missing(Node):
    """A field that the file does not have."""

    num_rows = None
    decoded_bytes = 0

    def __init__(self, field: Field) -> None:
        self.name = field.name
        self._type = field.arrow_type

    def read(self, start: int, end: int) -> Steps[pa.Array]:
        return nothing(pa.nulls(end - start, self._type))

    def row_columns(self) -> Iterator[Stored]:
        return iter(())


class Leaf(Stored):
    """A field whose column has its values."""

    def __init__(self, column: _Column, arrow_type: pa.DataType) -> None:
        super().__init__(column, arrow_type)
        self._type = arrow_type
        self._pages: list[Encoding | None] = [None] * column.num_pages

    def read(self, start: int, end: int) -> Steps[pa.Array]:
        arrays = yield from together(
            [self._read_page(*each) for each in self._column.page_ranges(start, end)]
        )
        return _joined(arrays)

    def _read_page(self, page: int, start: int, end: int) -> Steps[pa.Array]:
        encoding = self._page(page)
        with located(self._column.file, self.name, page):
            decoded = yield from encoding.read(start, end)
            return decoded.values.to_arrow(end - start, self._type, decoded.validity)

    def page_to_take(self, page: int) -> FlatPage | None:
        direct = self._direct[page]
        if direct is None:
            num_rows = self._column.num_page_values(page)
            direct = self._direct[page] = direct_page(self._page(page), self._type, num_rows)
        return direct

    def pages_to_take(self, start: int, end: int) -> tuple[list[FlatPage], list[int]] | None:
        """Return the pages that have the values `[start, end)`, the number of the first value of each, and of
        the value after the last page; None if the kernel cannot decode one of them.
        """
        numbers = [page for page, _, _ in self._column.page_ranges(start, end)]
        pages = [direct for page in numbers if (direct := self.page_to_take(page)) is not None]
        if not numbers or len(pages) < len(numbers):
            return None
        return pages, [*(self.starts[page] for page in numbers), self.starts[numbers[-1] + 1]]

    def _page(self, page: int) -> Encoding:
        encoding = self._pages[page]
        if encoding is None:
            column = self._column
            description = column.description(page)
            with located(column.file, self.name, page):
                encoding = parse_encoding(
                    description, column.buffers(page), self._type, column.num_page_values(page)
                )
            # Two threads may parse the same page. Either object is good.
            self._pages[page] = encoding
        return encoding

    @property
    def kept_bytes(self) -> int:
        return sum(page.kept_bytes for page in self._pages if page is not None)

    def _pick(self, page: int, rows: Rows) -> Picking[pa.Array]:
        encoding = self._page(page)
        with located(self._column.file, self.name, page):
            decoded = yield from encoding.pick(rows - self.starts[page])
            return decoded.values.to_arrow(len(rows), self._type, decoded.validity)

    def _can_pick(self, page: int) -> bool:
        return self._page(page).can_pick

    @cached_property
    def decoded_bytes(self) -> int:
        return sum(self._page(page).decoded_bytes for page in range(self._column.num_pages))


class _List(Stored):
    """A list. Its column has the ends of its lists, and the columns below it have the items."""

    def __init__(self, column: _Column, items: Node, arrow_type: pa.DataType, offset_bits: int) -> None:
        is_list = arrow_type.num_fields > 0  # otherwise these are strings of the first writers
        super().__init__(column, *((arrow_type.value_type, arrow_type) if is_list else (arrow_type, None)))
        self._items = items
        self._type = arrow_type
        self._offset_bits = offset_bits
        self._pages = [self._open_page(page) for page in range(column.num_pages)]
        self._bases = list(accumulate((page.num_items for page in self._pages), initial=0))
        check_length(items, self._bases[-1], "items of the lists", column.file)

    def page_to_take(self, page: int) -> FlatPage | None:
        direct = self._direct[page]
        if direct is None and isinstance(self._items, Leaf):
            base, count = self._bases[page], self._pages[page].num_items
            items = self._items.pages_to_take(base, base + count)
            if items is not None:
                num_rows = self._column.num_page_values(page)
                direct = self._direct[page] = direct_lists(self._pages[page], num_rows, base, *items)
        return direct

    def _open_page(self, page: int) -> ListPage:
        column = self._column
        description = column.description(page)
        with located(column.file, self.name, page):
            return ListPage.parse(
                description, column.buffers(page), self._offset_bits, column.num_page_values(page)
            )

    def read(self, start: int, end: int) -> Steps[pa.Array]:
        arrays = yield from together(
            [self._read_page(*each) for each in self._column.page_ranges(start, end)]
        )
        return _joined(arrays)

    def _read_page(self, page: int, start: int, end: int) -> Steps[pa.Array]:
        with located(self._column.file, self.name, page):
            extents = yield from self._pages[page].read(start, end)
        base = self._bases[page]
        items = yield from _read_some(self._items, base + extents.begin, base + extents.end)
        with located(self._column.file, self.name, page):
            return self._assemble(end - start, extents, items)

    def _pick(self, page: int, rows: Rows) -> Picking[pa.Array]:
        with located(self._column.file, self.name, page):
            extents = yield from self._pages[page].pick(rows - self.starts[page])
            wanted = self._bases[page] + _numbers(extents)
        arrays: list[pa.Array] = []
        if len(wanted):
            picks = self._items.pick_by_page(wanted)
            assert picks is not None  # `_can_pick` has checked all pages of the items
            arrays = yield from picked_together(picks)
        found = Extents(extents.offsets, extents.validity, 0, len(wanted))
        with located(self._column.file, self.name, page):
            return self._assemble(len(rows), found, _joined(arrays) if arrays else None)

    def _can_pick(self, page: int) -> bool:
        return self._items.can_pick and self._pages[page].can_pick

    def _assemble(self, num_rows: int, extents: Extents, items: pa.Array | None) -> pa.Array:
        """Return the lists over `items`, which is None if the lists are empty."""
        if items is None:
            items = pa.nulls(0, self._type.value_type)
        buffers = [extents.validity, extents.offsets]
        return pa.Array.from_buffers(self._type, num_rows, buffers, children=[items])

    @property
    def decoded_bytes(self) -> int:
        return self._column.num_values * self._offset_bits // 8 + self._items.decoded_bytes


class _ListedText(_List):
    """Strings of the first 2.0 writers: lists of bytes, with the bytes in the next column."""

    def page_to_take(self, page: int) -> None:
        return None  # the kernel would return lists

    def _can_pick(self, page: int) -> bool:
        return False  # it would request byte by byte

    def _assemble(self, num_rows: int, extents: Extents, items: pa.Array | None) -> pa.Array:
        if items is not None and items.null_count:
            raise CorruptData("strings with bytes that are null")
        data = pa.py_buffer(b"") if items is None else items.buffers()[1]
        return pa.Array.from_buffers(self._type, num_rows, [extents.validity, extents.offsets, data])


class _Struct(Node):
    """A struct. Its column has only the number of structs. No struct is null."""

    def __init__(self, field: Field, file: Columns, children: Sequence[Node]) -> None:
        self.name = field.name
        self._type = field.arrow_type
        self._children = children
        index = file.index(field)
        if index is not None:
            self.num_rows = _num_structs(file.column(field, index))
        else:
            lengths = [child.num_rows for child in children if child.num_rows is not None]
            self.num_rows = lengths[0] if lengths else None
        if self.num_rows is not None:
            for child in children:
                check_length(child, self.num_rows, f"structs of {field.name!r}", file.name)

    def read(self, start: int, end: int) -> Steps[pa.Array]:
        children = yield from together([child.read(start, end) for child in self._children])
        return pa.Array.from_buffers(self._type, end - start, [None], children=children)

    def row_columns(self) -> Iterator[Stored]:
        for child in self._children:
            yield from child.row_columns()

    @property
    def decoded_bytes(self) -> int:
        return sum(child.decoded_bytes for child in self._children)


def _num_structs(column: _Column) -> int:
    if column.num_pages != 1:
        raise CorruptFileError(
            "a struct has a wrong number of pages",
            file=column.file,
            column=column.name,
            expected=1,
            found=column.num_pages,
        )
    description = column.description(0)
    with located(column.file, column.name, 0):
        check_struct_page(description)
    return column.num_values


def open_node(file: Columns, field: Field) -> Node:
    """Return the node of a field.

    Raises:
        UnsupportedFeatureError: a kind of field that 2.0 files cannot hold, or that is not supported; the
            message names it.
        CorruptFileError: columns that contradict each other.
    """
    arrow_type = field.arrow_type
    index = file.index(field)
    if pa.types.is_struct(arrow_type) and not field.is_packed:
        return _Struct(field, file, [open_node(file, child) for child in field.children])
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        items = open_node(file, field.children[0])
        if index is not None:
            bits = 64 if pa.types.is_large_list(arrow_type) else 32
            return _List(file.column(field, index), items, arrow_type, bits)
        if items.num_rows is not None:
            raise CorruptFileError("list items without lists", file=file.name, column=field.name)
        return _Missing(field)
    if field.children and not field.is_packed:
        raise UnsupportedFeatureError(
            "type in a 2.0 file", file=file.name, column=field.name, found=field.logical_type
        )
    if index is None:
        return _Missing(field)
    column = file.column(field, index)
    if (bits := offset_bits(arrow_type)) and column.holds_lists:
        data = Leaf(file.column(field, index + 1), pa.uint8())
        return _ListedText(column, data, arrow_type, bits)
    return Leaf(column, arrow_type)


def check_length(node: Node, expected: int, what: str, file: str) -> None:
    """Check the number of values of a node.

    Raises:
        CorruptFileError: the node has another number of values.
    """
    if node.num_rows is not None and node.num_rows != expected:
        raise CorruptFileError(
            f"pages do not add up to the {what}",
            file=file,
            column=node.name,
            expected=expected,
            found=node.num_rows,
        )


def _numbers(extents: PickedExtents) -> Rows:
    """Return the numbers of all items of ascending lists."""
    begins, ends = extents.begins, extents.ends
    if (begins[1:] < ends[:-1]).any():
        raise CorruptData("ends of lists decrease")
    lengths = ends - begins
    num_items = int(lengths.sum())
    if num_items > _MOST_PICKED_ITEMS:
        raise OffsetOverflow(f"{num_items} items are too many to be found one by one")
    numbers: Rows = np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(num_items)
    return numbers


def _read_some(node: Node, start: int, end: int) -> Steps[pa.Array | None]:
    """Read the values `[start, end)`; return None if the range is empty."""
    if start == end:
        return None
    return (yield from node.read(start, end))


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the arrays of several pages as one array. Only items of lists span several pages."""
    if len(arrays) == 1:
        return arrays[0]
    try:
        return concat_arrays(arrays)
    except pa.ArrowCapacityError:
        # Offsets or dictionary keys became too large. The caller reads fewer rows at once.
        raise OffsetOverflow("values of several pages do not fit together") from None
