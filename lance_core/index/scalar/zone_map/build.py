"""Writing of zone maps: `zonemap.lance` has a row per zone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.row_sets import RowSet, TreeMap
from lance_core.index.scalar.parameters import positive_integer, refuse_unknown, stored_number
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.value_order import ValueOrder, value_order
from lance_core.index.zones import NULL_ROWS, ZONE_FIELDS, Zone, zones_of
from lance_core.proto import index_pb2

FILE = "zonemap.lance"
ROWS_PER_ZONE = "rows_per_zone"
"""Name of the parameter, and key of the schema metadata."""
DEFAULT_ROWS_PER_ZONE = 8192
_ZONES_AT_ONCE = 1024


def build_zone_map(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the file of a zone map; see `lance_core.index.build.Builder`.

    The parameter `rows_per_zone` is the number of live rows of a zone.
    """
    refuse_unknown(parameters, [ROWS_PER_ZONE])
    rows_per_zone = positive_integer(parameters, ROWS_PER_ZONE, DEFAULT_ROWS_PER_ZONE)
    schema = zone_schema(rows.field.type)
    order = _order_of(rows.field.type)
    null_rows = RowSet()
    with writer.create(FILE, schema) as file, stage(rows.observer, "scan", rows.num_rows) as advance:
        zones = _Zones(schema, order)
        for zone in zones_of(rows.scan(), rows_per_zone):
            zones.add(zone, null_rows)
            advance(len(zone.addresses))
            if len(zones) == _ZONES_AT_ONCE:
                file.write(zones.take())
        file.write(zones.take())
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


class _Zones:
    """Descriptions of zones, gathered until they are written together."""

    def __init__(self, schema: pa.Schema, order: ValueOrder | None) -> None:
        self._schema = schema
        self._order = order
        self._bounds: list[pa.Array] = []
        """The least and the greatest sort key of each zone that has any."""
        self._has_bounds: list[bool] = []
        self._numbers: list[tuple[int, ...]] = []
        """Counts of nulls and NaN, and the place."""

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, zone: Zone, null_rows: RowSet) -> None:
        """Add a zone. Add the addresses of its null rows to a set."""
        values = zone.values
        num_nulls = values.null_count
        if num_nulls:
            null_rows.add(zone.addresses[np.asarray(values.is_null())])
            values = values.drop_null()
        num_nans = 0
        is_bounded = self._order is not None and len(values) > 0
        if self._order is not None and is_bounded:
            self._bounds.append(self._order.bounds(self._order.encode(values)))
            if pa.types.is_floating(values.type):
                num_nans = int(np.isnan(np.asarray(values)).sum())
        self._has_bounds.append(is_bounded)
        self._numbers.append((num_nulls, num_nans, *zone.place))

    def take(self) -> pa.RecordBatch:
        """Remove the zones, and return them as rows of the file."""
        count = len(self)
        if not count:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        least = most = pa.nulls(count, self._schema.field(0).type)
        if self._order is not None and self._bounds:
            bounds = self._order.decode(pa.concat_arrays(self._bounds))
            is_missing = ~np.array(self._has_bounds)
            places = 2 * (np.cumsum(~is_missing) - 1)
            least = bounds.take(pa.array(places, mask=is_missing))
            most = bounds.take(pa.array(places + 1, mask=is_missing))
        types = self._schema.types[2:]
        columns = [
            pa.array(column, arrow_type)
            for column, arrow_type in zip(zip(*self._numbers, strict=True), types, strict=True)
        ]
        self._bounds, self._has_bounds, self._numbers = [], [], []
        return pa.RecordBatch.from_arrays([least, most, *columns], schema=self._schema)


def _order_of(value_type: pa.DataType) -> ValueOrder | None:
    """Return the order of a type; None if values of the type have none, so that zones have no bounds."""
    try:
        return value_order(value_type)
    except TypeError:
        return None
