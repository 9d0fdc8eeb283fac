"""Zones: ranges of rows of a fragment that zone maps and Bloom filters describe.

A zone has a number of live rows of one fragment. It is described by the position of its first row and the
span up to its last row, so deleted rows between them do not matter.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import concat_arrays
from lance_core.index.build import VALUE, FragmentRows, IndexedRows, RowNumbers

NULL_ROWS = "null_bitmap"
"""Key of the schema metadata: number of the global buffer with the set of the addresses of null rows."""

ZONE_FIELDS = [
    pa.field("fragment_id", pa.uint64(), nullable=False),
    pa.field("zone_start", pa.uint64(), nullable=False),
    pa.field("zone_length", pa.uint64(), nullable=False),
]
"""Columns that say which rows a zone has."""
_NO_ROWS: RowNumbers = np.empty(0, np.uint64)


@dataclass(frozen=True)
class ZoneSpan:
    """Live rows of consecutive zones of one fragment.

    Attributes:
        fragment: The fragment.
        start: Number of the first row in the fragment.
        num_rows: Number of rows.
        rows_per_zone: Number of rows of all zones but the last, which may have fewer.
    """

    fragment: FragmentRows
    start: int
    num_rows: int
    rows_per_zone: int

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """Position of the first row of each zone in the span."""
        return np.arange(0, self.num_rows, self.rows_per_zone)

    def addresses_at(self, positions: npt.NDArray[np.int64]) -> RowNumbers:
        """Return the addresses of rows by their positions in the span."""
        return self.fragment.addresses_at((positions + self.start).view(np.uint64))


def places_of(spans: Iterable[ZoneSpan]) -> list[pa.Array]:
    """Return fragment, offset of the first row, and span up to the last row of each zone: `ZONE_FIELDS`."""
    starts, ends = [], []
    for span in _joined(spans):
        firsts = span.firsts
        lasts = np.minimum(firsts + span.rows_per_zone, span.num_rows) - 1
        addresses = span.addresses_at(np.concatenate((firsts, lasts)))
        starts.append(addresses[: len(firsts)])
        ends.append(addresses[len(firsts) :])
    first, last = np.concatenate(starts), np.concatenate(ends)
    columns = (first >> np.uint64(32), first & np.uint64(0xFFFFFFFF), last - first + np.uint64(1))
    return [pa.array(column) for column in columns]


def _joined(spans: Iterable[ZoneSpan]) -> list[ZoneSpan]:
    """Return spans that follow one another in a fragment as one: only the last zone may have fewer rows."""
    joined: list[ZoneSpan] = []
    for span in spans:
        if joined and joined[-1].fragment is span.fragment:
            joined[-1] = replace(joined[-1], num_rows=joined[-1].num_rows + span.num_rows)
        else:
            joined.append(span)
    return joined


@dataclass(frozen=True)
class ZoneRows:
    """Values of the rows of consecutive zones.

    Attributes:
        span: The rows.
        values: Their values.
    """

    span: ZoneSpan
    values: pa.Array

    @property
    def null_addresses(self) -> RowNumbers:
        """Addresses of the rows whose value is null."""
        if not self.values.null_count:
            return _NO_ROWS
        return self.span.addresses_at(np.flatnonzero(self.values.is_null()))


def zones_of(rows: IndexedRows, rows_per_zone: int) -> Iterator[ZoneRows]:
    """Read rows, and cut them to zones.

    Args:
        rows: The rows.
        rows_per_zone: Number of rows of all zones but the last of a fragment.
    """
    batches = rows.scan(rows_per_zone)
    for fragment in rows.fragments:
        start = 0
        for values in _whole_zones(_values_of(fragment, batches), rows_per_zone):
            yield ZoneRows(ZoneSpan(fragment, start, len(values), rows_per_zone), values)
            start += len(values)


def _values_of(fragment: FragmentRows, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Array]:
    """Yield the values of the next batches, which are those of a fragment."""
    missing = fragment.num_rows
    while missing:
        values = next(batches).column(VALUE)
        missing -= len(values)
        yield values


def _whole_zones(parts: Iterable[pa.Array], rows_per_zone: int) -> Iterator[pa.Array]:
    """Yield the values of a fragment again, cut at the ends of zones."""
    waiting: list[pa.Array] = []  # values of a zone that is not complete
    for values in parts:
        if waiting:
            missing = rows_per_zone - sum(map(len, waiting))
            waiting.append(values.slice(0, missing))
            values = values.slice(missing)
            if len(waiting[-1]) < missing:
                continue
            yield concat_arrays(waiting)
            waiting = []
        whole = len(values) // rows_per_zone * rows_per_zone
        if whole:
            yield values.slice(0, whole)
        if whole < len(values):
            waiting.append(values.slice(whole))
    if waiting:
        yield concat_arrays(waiting)
