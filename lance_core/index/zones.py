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


@dataclass(frozen=True)
class Zone:
    """Live rows of one zone."""

    values: pa.Array
    addresses: Rows

    @property
    def place(self) -> tuple[int, int, int]:
        """Fragment, offset of the first row, and span up to the last row: the columns `ZONE_FIELDS`."""
        first, last = int(self.addresses[0]), int(self.addresses[-1])
        return first >> 32, first & 0xFFFFFFFF, last - first + 1


def zones_of(batches: Iterable[pa.RecordBatch], rows_per_zone: int) -> Iterator[Zone]:
    """Cut rows in the order of their addresses to zones.

    Args:
        batches: Rows with the columns `VALUE` and `ROW_KEY`, which has row addresses.
        rows_per_zone: Number of rows of all zones but the last of a fragment.
    """
    waiting: list[Zone] = []
    num_waiting = 0
    for batch in batches:
        values, addresses = batch.column(VALUE), np.asarray(batch.column(ROW_KEY))
        fragments = addresses >> np.uint64(32)
        cuts = [0, *(np.flatnonzero(fragments[1:] != fragments[:-1]) + 1).tolist(), len(addresses)]
        for start, end in pairwise(cuts):
            if waiting and start < end and waiting[0].place[0] != fragments[start]:
                yield _joined(waiting)
                waiting, num_waiting = [], 0
            while start < end:
                count = min(end - start, rows_per_zone - num_waiting)
                waiting.append(Zone(values.slice(start, count), addresses[start : start + count]))
                num_waiting += count
                start += count
                if num_waiting == rows_per_zone:
                    yield _joined(waiting)
                    waiting, num_waiting = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Zone]) -> Zone:
    if len(parts) == 1:
        return parts[0]
    return Zone(
        concat_arrays([part.values for part in parts]), np.concatenate([part.addresses for part in parts])
    )
