"""Search in a zone map: bounds and counts of the values of each zone.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.index.scalar.answers import Answer
from lance_core.index.scalar.questions import Between, IsNull, OneOf, Question, StartsWith
from lance_core.index.scalar.zones import Zones, read_zones
from lance_core.index.segments import OpenSegment
from lance_core.process.counters import note
from lance_core.schema.arrow_values import numbers_of, scalar_of
from lance_core.statistics import intervals
from lance_core.statistics.collect import has_bounds
from lance_core.statistics.intervals import Flags, Values

FILE = "zonemap.lance"


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that answer a question; None if a zone map does not answer it.

    Errors are those of the search in a B-tree.
    """
    known = _zone_map(segment)
    if isinstance(question, IsNull):
        return known.zones.nulls(known.values.null, most_rows)
    note("index_comparisons", len(known.zones.starts))
    flags = _may_match(known.values, question)
    if flags is None:
        return None
    return known.zones.answer(np.broadcast_to(flags, known.zones.starts.shape), most_rows)


def value_type(segment: OpenSegment) -> pa.DataType:
    """Return the type of the values; errors are those of the search in a B-tree."""
    return _zone_map(segment).values.type


def warm(segment: OpenSegment) -> Iterator[None]:
    """Read the segment into the cache, step by step; errors are those of the search in a B-tree."""
    _zone_map(segment)
    yield


@dataclass(frozen=True)
class _ZoneMap:
    zones: Zones
    values: Values

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        bounds = [self.values.least, self.values.most]
        return self.zones.nbytes + sum(int(each.nbytes) for each in bounds if each is not None)


def _zone_map(segment: OpenSegment) -> _ZoneMap:
    return segment.kept("zones", partial(_read, segment), lambda found: found.nbytes)


def _may_match(values: Values, question: Question) -> Flags | None:
    """Return whether each zone may have a row that meets a condition; None for other kinds of conditions."""
    if isinstance(question, OneOf):
        found = question.values
        if pa.types.is_floating(found.type):
            is_nan = pc.is_nan(found)
            numbers, has_nan = found.filter(pc.invert(is_nan)), bool(pc.any(is_nan).as_py())
        else:
            numbers, has_nan = found, False
        ordered = np.sort(intervals.sortable(intervals.comparable(numbers)))
        return intervals.contained(values, ordered, has_nan, False).true
    if isinstance(question, StartsWith):
        return intervals.starts_with(values, question.prefix).true
    if isinstance(question, Between):
        flags = np.ones(1, np.bool_)
        for bound, op in (
            (question.low, ">=" if question.with_low else ">"),
            (question.high, "<=" if question.with_high else "<"),
        ):
            if bound is not None:
                flags = flags & intervals.compare(op, values, intervals.literal_values(bound)).true
        return flags & values.some
    return None


def _read(segment: OpenSegment) -> _ZoneMap:
    file = segment.open_file(FILE)
    zones = read_zones(file)
    batch = file.read(0, file.num_rows, ["min", "max", "null_count", "nan_count"])
    kind = batch.column(0).type
    unknown = scalar_of(-1)
    nulls, nans = (numbers_of(column.cast(pa.int64()).fill_null(unknown)) for column in batch.columns[2:])
    is_float = pa.types.is_floating(kind)
    least = most = None
    if has_bounds(kind) and not pa.types.is_dictionary(kind):
        least, most = (intervals.comparable(side) for side in batch.columns[:2])
        if is_float:  # NaN as a bound says that there is a NaN
            nothing = scalar_of(None, least.type)
            least, most = (pc.if_else(pc.is_nan(side), nothing, side) for side in (least, most))
    # Counts are those of the rows that were live, fewer than the rows from the first to the last.
    ordinary = (nulls < 0) | (nans < 0) | (nulls + nans < zones.ends - zones.starts)
    return _ZoneMap(zones, Values(kind, least, most, ordinary, (nans != 0) & is_float, nulls != 0))
