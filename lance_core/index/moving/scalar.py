"""Scalar indices: B-trees, bitmaps, label lists and n-grams, rewritten with new row addresses.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.writer_options import FileTail
from lance_core.index.moving.copying import SegmentCopy, SourceFile
from lance_core.index.moving.moved_rows import MovedRows
from lance_core.index.moving.moved_sets import move_column, move_set
from lance_core.index.row_sets import Map64, TreeMap

_PAGE_ROWS = 4096
"""Default number of rows in a page of a B-tree."""
_MOST_PAGE_ROWS = 1 << 24


def move_btree(copy: SegmentCopy, rows: MovedRows) -> None:
    """Rewrite a B-tree.

    `page_data.lance` has values and row addresses, sorted by value. A page is a fixed number of its rows.
    `page_lookup.lance` has the first and last value and the number of nulls of each page. If rows were
    removed, the pages are cut again.

    Raises:
        UnsupportedFeatureError: the pages are in several files.
    """
    with copy.open("page_lookup.lance") as lookup_file, copy.open("page_data.lance") as data_file:
        lookup, data = SourceFile(lookup_file), SourceFile(data_file)
        lookup.require("min", "max", "null_count", "page_idx")
        data.require("values", "ids")
        if lookup.metadata.get("range_partitioned", b"false") != b"false":
            raise UnsupportedFeatureError("B-tree with pages in several files", file=lookup.name)
        pages = _Pages(_page_rows(lookup), lookup.arrow_schema)
        copy.write("page_data.lance", data, pages.watch(_left(data, "ids", rows)))
        copy.write("page_lookup.lance", lookup, pages.finish())


def move_bitmap(copy: SegmentCopy, rows: MovedRows) -> None:
    """Rewrite a bitmap or label list index, which has a set of row addresses per value, and a set for null
    lists.
    """
    left = 0

    def step(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal left
        moved = _with_sets(batch, rows, name)
        left += moved.num_rows
        return moved

    def tail(source: SourceFile) -> FileTail:
        buffers = source.global_buffers()
        metadata = {}
        if "lance:index_stats" in source.metadata:
            metadata["lance:index_stats"] = b'{"num_bitmaps":%d}' % left
        nulls = source.metadata.get("lance:label_list_nulls")
        if nulls is not None:
            number = buffer_number(nulls, len(buffers), source.name)
            buffers[number] = move_set(buffers[number], TreeMap(), rows, source.name)
        return FileTail(metadata, buffers)

    name = "bitmap_page_lookup.lance"
    copy.copy(name, step, tail)


def move_ngram(copy: SegmentCopy, rows: MovedRows) -> None:
    """Rewrite an n-gram index, which has a set of row addresses per token."""

    def step(batch: pa.RecordBatch) -> pa.RecordBatch:
        moved = move_column(batch.column(1), Map64(), rows, name)
        return _without_nulls(batch, moved)

    name = "ngram_postings.lance"
    copy.copy(name, step)


def buffer_number(text: bytes, count: int, file: str) -> int:
    """Return the index of a global buffer in the list of the buffers 1, 2, ...; `text` is its number in
    metadata.

    Raises:
        CorruptFileError: the file has no such buffer.
    """
    if not text.isdigit() or not 1 <= int(text) <= count:
        raise CorruptFileError(
            "number of a global buffer",
            file=file,
            expected=f"1 to {count}",
            found=text.decode(errors="replace"),
        )
    return int(text) - 1


def _with_sets(batch: pa.RecordBatch, rows: MovedRows, file: str) -> pa.RecordBatch:
    return _without_nulls(batch, move_column(batch.column(1), TreeMap(), rows, file))


def _without_nulls(batch: pa.RecordBatch, sets: pa.Array) -> pa.RecordBatch:
    """Return the batch with `sets` as its second column, without the rows whose set is null."""
    moved = pa.RecordBatch.from_arrays([batch.column(0), sets], schema=batch.schema)
    return moved.filter(sets.is_valid()) if sets.null_count else moved


def _left(source: SourceFile, name: str, rows: MovedRows) -> Iterator[pa.RecordBatch]:
    """Yield the remaining rows, with new addresses in the column `name`."""
    place = source.arrow_schema.get_field_index(name)
    for batch in source.batches():
        translated, kept = rows.translate(batch.column(place).to_numpy().astype(np.uint64))
        moved = batch.set_column(place, batch.schema.field(place), pa.array(translated))
        yield moved if kept.all() else moved.filter(pa.array(kept))


def _page_rows(lookup: SourceFile) -> int:
    text = lookup.metadata.get("batch_size", b"%d" % _PAGE_ROWS)
    if not text.isdigit() or not 1 <= int(text) <= _MOST_PAGE_ROWS:
        raise CorruptFileError(
            "rows of a page",
            file=lookup.name,
            expected=f"1 to {_MOST_PAGE_ROWS}",
            found=text.decode("latin1"),
        )
    return int(text)


class _Pages:
    """Pages of a B-tree, described while their rows are written."""

    def __init__(self, page_rows: int, schema: pa.Schema) -> None:
        self._page_rows = page_rows
        self._schema = schema
        self._waiting: list[pa.Array] = []
        """Values that do not fill a page yet."""
        self._num_waiting = 0
        self._described: list[pa.RecordBatch] = []

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the batches on, and describe their full pages."""
        for batch in batches:
            self._waiting.append(batch.column(0))
            self._num_waiting += batch.num_rows
            if self._num_waiting >= self._page_rows:
                self._describe(self._num_waiting // self._page_rows * self._page_rows)
            yield batch

    def finish(self) -> list[pa.RecordBatch]:
        """Return the rows of the lookup file."""
        if self._num_waiting:
            self._describe(self._num_waiting)
        return self._described

    def _describe(self, num_rows: int) -> None:
        """Describe the pages of the first `num_rows` waiting rows."""
        values = pa.concat_arrays(self._waiting)
        firsts = np.arange(0, num_rows, self._page_rows)
        lasts = np.minimum(firsts + self._page_rows, num_rows) - 1
        is_null = pc.is_null(values).to_numpy(zero_copy_only=False)[:num_rows].astype(np.uint32)
        number = sum(batch.num_rows for batch in self._described)
        columns = [
            values.take(pa.array(firsts)),
            values.take(pa.array(lasts)),
            pa.array(np.add.reduceat(is_null, firsts).astype(np.uint32)),
            pa.array(np.arange(number, number + len(firsts), dtype=np.uint32)),
        ]
        self._described.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._waiting = [values.slice(num_rows)]
        self._num_waiting -= num_rows
