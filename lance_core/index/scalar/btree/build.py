"""Writing of B-trees.

`page_data.lance` has the values and the row keys, nulls first. `page_lookup.lance` has the first and the last
value and the number of nulls of each page.
"""

from __future__ import annotations

import pyarrow as pa

from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.scalar.btree.pages import PAGE_ROWS, PageTable
from lance_core.index.scalar.parameters import positive_integer, refuse_unknown, stored_number
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SMALL_PAGE_BYTES, SegmentWriter
from lance_core.index.sorting import RowSorter, SortedRows


def build_btree(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the files of a B-tree; see `lance_core.index.build.Builder`.

    The parameter `zone_size` is the number of rows of a page. The version of the files is 0: with stable row
    ids they name rows by id, which every release of the reference reads.
    """
    refuse_unknown(parameters, ["zone_size"])
    page_rows = positive_integer(parameters, "zone_size", PAGE_ROWS)
    with RowSorter(rows.field.type, rows.num_rows) as sorter:
        with stage(rows.observer, "sort", rows.num_rows) as advance:
            for batch in rows.scan():
                sorter.add(batch)
                advance(batch.num_rows)
        with stage(rows.observer, "write"):
            write_btree(sorter.finish(), rows.field.type, page_rows, writer)
    return BuiltSegment()


def btree_parameters(files: SegmentFiles) -> Parameters:
    """Return the parameters of a B-tree; see `lance_core.index.build.IndexKind.parameters_of`."""
    with files.source("page_lookup.lance") as lookup:
        return {"zone_size": stored_number(lookup, "batch_size")}


def write_btree(rows: SortedRows, value_type: pa.DataType, page_rows: int, writer: SegmentWriter) -> None:
    """Write the files of a B-tree from rows in order, with `page_rows` rows per page."""
    data = pa.schema([pa.field("values", value_type), pa.field("ids", pa.uint64(), nullable=False)])
    lookup = pa.schema(
        [
            pa.field("min", value_type),
            pa.field("max", value_type),
            pa.field("null_count", pa.uint32(), nullable=False),
            pa.field("page_idx", pa.uint32(), nullable=False),
        ]
    )
    pages = PageTable(page_rows, lookup)
    batches = pages.watch(rows.batches(data))
    writer.write("page_data.lance", data, batches, page_bytes=SMALL_PAGE_BYTES)
    metadata = {"batch_size": str(page_rows), "range_partitioned": "false"}
    writer.write("page_lookup.lance", lookup, pages.finish(), metadata=metadata)
