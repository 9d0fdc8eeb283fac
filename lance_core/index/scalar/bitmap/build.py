"""Writing of bitmap indices: `bitmap_page_lookup.lance` has a row per value, with the set of its row keys."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa

from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.row_sets import TreeMap
from lance_core.index.scalar.parameters import refuse_unknown
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.sets_by_value import SetsByValue

FILE = "bitmap_page_lookup.lance"
STATISTICS = "lance:index_stats"
"""Key of the schema metadata: JSON with the number of sets."""


def build_bitmap(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the file of a bitmap index; see `lance_core.index.build.Builder`. It has no parameters."""
    refuse_unknown(parameters)
    with SetsByValue(rows.field.type, TreeMap()) as sets:
        with stage(rows.observer, "gather", rows.num_rows) as advance:
            for batch in rows.scan():
                sets.add(batch)
                advance(batch.num_rows)
        with stage(rows.observer, "write"):
            write_sets(sets, rows.field.type, writer)
    return BuiltSegment()


def write_sets(
    sets: SetsByValue,
    value_type: pa.DataType,
    writer: SegmentWriter,
    buffers: Mapping[str, bytes] | None = None,
) -> None:
    """Write the file of a bitmap index.

    Args:
        sets: The sets of all values.
        value_type: Type of the values.
        writer: Writer of the segment.
        buffers: Global buffers, as for `SegmentWriter.write`.
    """
    schema = pa.schema([pa.field("keys", value_type), pa.field("bitmaps", pa.binary())])
    with writer.create(FILE, schema) as file:
        for batch in sets.batches(schema):
            file.write(batch)
        file.add_metadata({STATISTICS: json.dumps({"num_bitmaps": file.num_rows}, separators=(",", ":"))})
        for key, data in (buffers or {}).items():
            file.add_metadata({key: str(file.add_buffer(data))})
