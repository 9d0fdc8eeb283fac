"""Zones: ranges of rows of a fragment that zone maps and Bloom filters describe.

A zone has a number of live rows of one fragment. It is described by the position of its first row and the
span up to its last row, so deleted rows between them do not matter.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.encodings.values import concat_arrays
from lance_core.index.build import ROW_KEY, VALUE
from lance_core.index.value_order import Rows

NULL_ROWS = "null_bitmap"
"""Key of the schema metadata: number of the global buffer with the set of the addresses of null rows."""

ZONE_FIELDS = [
    pa.field("fragment_id", pa.uint64(), nullable=False),
    pa.field("zone_start", pa.uint64(), nullable=False),
    pa.field("zone_length", pa.uint64(), nullable=False),
]
"""Columns that say which rows a zone has."""
_NO_ROWS: Rows = np.empty(0, np.uint64)


@dataclass(frozen=True)
class ZoneRows:
    """Live rows of consecutive zones of one fragment.

    Attributes:
        values: Values of the rows.
        addresses: Addresses of the rows, ascending.
        rows_per_zone: Number of rows of all zones but the last, which may have fewer.
    """

    values: pa.Array
    addresses: Rows
    rows_per_zone: int

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """Position of the first row of each zone."""
        return np.arange(0, len(self.addresses), self.rows_per_zone)

    @property
    def places(self) -> list[pa.Array]:
        """Fragment, offset of the first row, and span up to the last row of each zone: `ZONE_FIELDS`."""
        firsts = self.firsts
        lasts = np.minimum(firsts + self.rows_per_zone, len(self.addresses)) - 1
        starts, ends = self.addresses[firsts], self.addresses[lasts]
        offsets = starts & np.uint64(0xFFFFFFFF)
        return [
            pa.array(column) for column in (starts >> np.uint64(32), offsets, ends - starts + np.uint64(1))
        ]

    @property
    def null_addresses(self) -> Rows:
        """Addresses of the rows whose value is null."""
        return self.addresses[np.asarray(self.values.is_null())] if self.values.null_count else _NO_ROWS


def zones_of(batches: Iterable[pa.RecordBatch], rows_per_zone: int) -> Iterator[ZoneRows]:
    """Cut rows in the order of their addresses to zones.

    Args:
        batches: Rows with the columns `VALUE` and `ROW_KEY`, which has row addresses.
        rows_per_zone: Number of rows of all zones but the last of a fragment.
    """
    waiting = _Waiting(rows_per_zone)
    for batch in batches:
        values, addresses = batch.column(VALUE), np.asarray(batch.column(ROW_KEY))
        for start, end in pairwise(_fragment_cuts(addresses)):
            if waiting.num_rows and waiting.fragment != int(addresses[start]) >> 32:
                yield waiting.take()
            if waiting.num_rows:  # they complete a zone
                count = min(end - start, rows_per_zone - waiting.num_rows)
                waiting.add(values.slice(start, count), addresses[start : start + count])
                start += count
                if waiting.num_rows == rows_per_zone:
                    yield waiting.take()
            whole = (end - start) // rows_per_zone * rows_per_zone
            if whole:
                yield ZoneRows(values.slice(start, whole), addresses[start : start + whole], rows_per_zone)
            if start + whole < end:
                waiting.add(values.slice(start + whole, end - start - whole), addresses[start + whole : end])
    if waiting.num_rows:
        yield waiting.take()


def _fragment_cuts(addresses: Rows) -> list[int]:
    """Return where each fragment begins among ascending addresses, and the number of rows."""
    if not len(addresses):
        return [0]
    if int(addresses[0]) >> 32 == int(addresses[-1]) >> 32:
        return [0, len(addresses)]
    fragments = addresses >> np.uint64(32)
    return [0, *(np.flatnonzero(fragments[1:] != fragments[:-1]) + 1).tolist(), len(addresses)]


class _Waiting:
    """Rows of a zone that is not complete."""

    def __init__(self, rows_per_zone: int) -> None:
        self.num_rows = 0
        self._rows_per_zone = rows_per_zone
        self._values: list[pa.Array] = []
        self._addresses: list[Rows] = []

    @property
    def fragment(self) -> int:
        """Fragment of the rows, of which there are some."""
        return int(self._addresses[0][0]) >> 32

    def add(self, values: pa.Array, addresses: Rows) -> None:
        """Add rows of the same fragment."""
        self._values.append(values)
        self._addresses.append(addresses)
        self.num_rows += len(addresses)

    def take(self) -> ZoneRows:
        """Remove the rows, and return them as one zone."""
        zone = ZoneRows(concat_arrays(self._values), np.concatenate(self._addresses), self._rows_per_zone)
        self._values, self._addresses, self.num_rows = [], [], 0
        return zone
