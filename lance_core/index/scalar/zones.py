"""Zones: consecutive rows of one fragment, described together by zone maps and Bloom filters.

A zone begins at the first live row after the zone before it, and ends at its last live row. Offsets are
physical, and row keys are always addresses. A file has the null rows in a global buffer, in new releases.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError
from lance_core.index.index_file import IndexFile
from lance_core.index.row_sets import Bitmaps, num_bytes
from lance_core.index.scalar.answers import Answer, TooManyRows
from lance_core.index.scalar.bitmap.search import read_set
from lance_core.number_sets import distinct
from lance_core.schema.arrow_values import numbers_of, scalar_of

_MOST = 1 << 32


@dataclass(frozen=True)
class Zones:
    """Places of zones.

    Attributes:
        fragments, starts, ends: Fragment id, first row and the row after the last, of each zone.
        null_rows: Addresses of null rows; None if the file does not say.
    """

    fragments: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    null_rows: Bitmaps | None

    @property
    def covered(self) -> pyroaring.BitMap:
        """Ids of the fragments that have zones."""
        return pyroaring.BitMap(distinct(self.fragments).tolist())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 3 * self.fragments.nbytes + sum(map(num_bytes, (self.null_rows or {}).values()))

    def answer(self, chosen: npt.NDArray[np.bool_], most_rows: int) -> Answer:
        """Return the rows of the zones that may have matching rows."""
        starts, ends, fragments = self.starts[chosen], self.ends[chosen], self.fragments[chosen]
        if int((ends - starts).sum()) > most_rows:
            raise TooManyRows
        rows: Bitmaps = {}
        for fragment, start, end in zip(fragments.tolist(), starts.tolist(), ends.tolist(), strict=True):
            rows.setdefault(fragment, pyroaring.BitMap()).add_range(start, end)
        return Answer(rows, False, None, self.covered)

    def nulls(self, counts: npt.NDArray[np.bool_], most_rows: int) -> Answer:
        """Return the rows that are null; without `null_rows` those of the zones with a null."""
        if self.null_rows is None:
            return self.answer(counts, most_rows)
        return Answer(self.null_rows, True, dict, self.covered)


def read_zones(file: IndexFile) -> Zones:
    """Return the places of the zones in a file.

    Raises:
        CorruptFileError: The file contradicts the format.
        StorageError: The storage failed.
    """
    batch = file.read(0, file.num_rows, ["fragment_id", "zone_start", "zone_length"])
    most = scalar_of(_MOST, pa.uint64())
    fragments, starts, lengths = (
        np.minimum(numbers_of(column.cast(pa.uint64()).fill_null(most)), _MOST).astype(np.int64)
        for column in batch.columns
    )
    ends = starts + lengths
    if len(ends) and max(fragments.max(), ends.max() - 1) >= _MOST:
        raise CorruptFileError("zones of an index are out of range", file=file.name)
    null_rows = None
    if "null_bitmap" in file.metadata:
        null_rows = read_set(file.global_buffer(file.integer("null_bitmap")), file.name)
    return Zones(fragments, starts, ends, null_rows)
