"""Writing of zone maps: `zonemap.lance` has a row per zone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core import kernels
from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.row_sets import RowSet, TreeMap
from lance_core.index.scalar.parameters import positive_integer, refuse_unknown, stored_number
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.zones import NULL_ROWS, ZONE_FIELDS, ZoneRows, ZoneSpan, places_of, zones_of
from lance_core.proto import index_pb2
from lance_core.statistics.collect import WHOLE, has_bounds, page_bounds

FILE = "zonemap.lance"
ROWS_PER_ZONE = "rows_per_zone"
"""Name of the parameter, and key of the schema metadata."""
DEFAULT_ROWS_PER_ZONE = 8192
_SPANS_AT_ONCE = 64


def build_zone_map(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the file of a zone map; see `lance_core.index.build.Builder`.

    The parameter `rows_per_zone` is the number of live rows of a zone.
    """
    refuse_unknown(parameters, [ROWS_PER_ZONE])
    rows_per_zone = positive_integer(parameters, ROWS_PER_ZONE, DEFAULT_ROWS_PER_ZONE)
    schema = zone_schema(rows.field.type)
    null_rows = RowSet()
    waiting: list[tuple[ZoneSpan, pa.RecordBatch]] = []
    with writer.create(FILE, schema) as file, stage(rows.observer, "scan", rows.num_rows) as advance:
        for zones in zones_of(rows, rows_per_zone):
            null_rows.add(zones.null_addresses)
            waiting.append((zones.span, _bounds(zones)))
            advance(len(zones.values))
            if len(waiting) == _SPANS_AT_ONCE:
                file.write(_described(waiting, schema))
                waiting.clear()
        if waiting:
            file.write(_described(waiting, schema))
        file.add_metadata({ROWS_PER_ZONE: str(rows_per_zone)})
        file.add_metadata({NULL_ROWS: str(file.add_buffer(null_rows.to_bytes(TreeMap())))})
    details = index_pb2.ZoneMapIndexDetails(rows_per_zone=rows_per_zone)
    return BuiltSegment(details=details.SerializeToString())


def zone_map_parameters(files: SegmentFiles) -> Parameters:
    """Return the parameters of a zone map; see `lance_core.index.build.IndexKind.parameters_of`."""
    with files.source(FILE) as file:
        return {ROWS_PER_ZONE: stored_number(file, ROWS_PER_ZONE)}


def zone_schema(value_type: pa.DataType) -> pa.Schema:
    """Return the columns of the file for values of a type."""
    counts = [pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "nan_count")]
    return pa.schema([pa.field("min", value_type), pa.field("max", value_type), *counts, *ZONE_FIELDS])


def _bounds(zones: ZoneRows) -> pa.RecordBatch:
    """Return the counts and bounds of zones. Bounds of strings are whole values."""
    values, rows_per_zone = zones.values, zones.span.rows_per_zone
    if pa.types.is_dictionary(values.type):
        values = values.indices
    try:
        return page_bounds(values, rows_per_zone, bound_bytes=WHOLE)
    except kernels.OffsetOverflow:
        starts = range(0, len(values), rows_per_zone)
        return pa.concat_batches(
            page_bounds(values.slice(start, rows_per_zone), bound_bytes=WHOLE) for start in starts
        )


def _described(found: Sequence[tuple[ZoneSpan, pa.RecordBatch]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of the file for zones, from their places and bounds."""
    spans, parts = zip(*found, strict=True)
    bounds = pa.concat_batches(parts)
    bound_type = schema.field(0).type
    least = most = pa.nulls(bounds.num_rows, bound_type)
    is_bounded = not (pa.types.is_nested(bound_type) or pa.types.is_dictionary(bound_type))
    if is_bounded and has_bounds(bound_type):
        least, most = bounds["min"], bounds["max"]
        if pa.types.is_floating(bound_type):  # NaN as a bound says that there is a NaN
            nan = pa.scalar(np.nan).cast(bound_type)
            most = pc.if_else(pc.greater(bounds["nan_count"], 0), nan, most)
    counts = [bounds[name].cast(pa.uint32()) for name in ("null_count", "nan_count")]
    return pa.RecordBatch.from_arrays([least, most, *counts, *places_of(spans)], schema=schema)
