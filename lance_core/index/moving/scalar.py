"""Scalar indices: B-trees, bitmaps, label lists and n-grams, rewritten with new row addresses.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.writer_options import FileTail
from lance_core.index.moving.copying import SegmentCopy
from lance_core.index.moving.moved_rows import Moves, with_new_addresses
from lance_core.index.moving.moved_sets import move_column, move_set
from lance_core.index.row_sets import Map64, TreeMap
from lance_core.index.scalar.btree.pages import PAGE_ROWS, PageTable
from lance_core.index.segment_files import SourceFile

_MOST_PAGE_ROWS = 1 << 24


def move_btree(copy: SegmentCopy, rows: Moves) -> None:
    """Rewrite a B-tree.

    `page_data.lance` has values and row addresses, sorted by value. A page is a fixed number of its rows.
    `page_lookup.lance` has the first and last value and the number of nulls of each page. If rows were
    removed, the pages are cut again.

    Raises:
        UnsupportedFeatureError: the pages are in several files.
    """
    files = copy.source
    with files.source("page_lookup.lance") as lookup, files.source("page_data.lance") as data:
        lookup.require("min", "max", "null_count", "page_idx")
        data.require("values", "ids")
        if lookup.metadata.get("range_partitioned", b"false") != b"false":
            raise UnsupportedFeatureError("B-tree with pages in several files", file=lookup.name)
        pages = PageTable(_page_rows(lookup), lookup.arrow_schema)
        copy.write("page_data.lance", data, pages.watch(_left(data, "ids", rows)))
        copy.write("page_lookup.lance", lookup, pages.finish())


def move_bitmap(copy: SegmentCopy, rows: Moves) -> None:
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


def move_ngram(copy: SegmentCopy, rows: Moves) -> None:
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


def _with_sets(batch: pa.RecordBatch, rows: Moves, file: str) -> pa.RecordBatch:
    return _without_nulls(batch, move_column(batch.column(1), TreeMap(), rows, file))


def _without_nulls(batch: pa.RecordBatch, sets: pa.Array) -> pa.RecordBatch:
    """Return the batch with `sets` as its second column, without the rows whose set is null."""
    moved = pa.RecordBatch.from_arrays([batch.column(0), sets], schema=batch.schema)
    return moved.filter(sets.is_valid()) if sets.null_count else moved


def _left(source: SourceFile, name: str, rows: Moves) -> Iterator[pa.RecordBatch]:
    """Yield the remaining rows, with new addresses in the column `name`."""
    place = source.arrow_schema.get_field_index(name)
    for batch in source.batches():
        moved, kept = with_new_addresses(batch, place, rows)
        yield moved if kept.all() else moved.filter(pa.array(kept))


def _page_rows(lookup: SourceFile) -> int:
    text = lookup.metadata.get("batch_size", b"%d" % PAGE_ROWS)
    if not text.isdigit() or not 1 <= int(text) <= _MOST_PAGE_ROWS:
        raise CorruptFileError(
            "rows of a page",
            file=lookup.name,
            expected=f"1 to {_MOST_PAGE_ROWS}",
            found=text.decode("latin1"),
        )
    return int(text)
