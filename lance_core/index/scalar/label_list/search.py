"""Search in a label list: one row per distinct element of the lists, with the set of the rows that have it.

The rows whose list is null are in a global buffer. Files of version 0 lack it.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa

from lance_core.index.row_sets import Bitmaps
from lance_core.index.scalar.answers import Answer, TooManyRows
from lance_core.index.scalar.bitmap.search import FILE, BitmapFile, read_set
from lance_core.index.scalar.questions import HasLabels, OneOf, Question
from lance_core.index.scalar.sorted_keys import has_order, ranges_of
from lance_core.index.segments import OpenSegment
from lance_core.number_sets import distinct

_NULLS = "lance:label_list_nulls"
"""Key of the metadata with the number of the buffer."""


def search(segment: OpenSegment, question: Question, most_rows: int) -> Answer | None:
    """Return the rows that answer a question; None if a label list does not answer it.

    Errors are those of the search in a B-tree.
    """
    if not isinstance(question, HasLabels) or not len(question.labels):
        return None
    index = BitmapFile(segment)
    if question.labels.type != index.kind or not has_order(index.kind):
        return None
    nulls = (lambda: _null_lists(segment)) if segment.entry.description.index_version else None
    if not question.every:
        return Answer(_with_any(index, question.labels, most_rows), True, nulls)
    # The rows with the rarest label are few enough if any label is rare.
    sets: list[Bitmaps] = []
    for label in range(len(question.labels)):
        try:
            sets.append(_with_any(index, question.labels.slice(label, 1), most_rows))
        except TooManyRows:
            continue
    if not sets:
        raise TooManyRows
    return Answer(reduce(_intersection, sets), len(sets) == len(question.labels), nulls)


def _with_any(index: BitmapFile, labels: pa.Array, most_rows: int) -> Bitmaps:
    """Return the rows whose list has one of the labels."""
    ranges = ranges_of(OneOf(labels), index.kind)
    assert ranges is not None
    return index.sets(distinct(np.concatenate([index.rows(each) for each in ranges])), most_rows)


def _intersection(one: Bitmaps, other: Bitmaps) -> Bitmaps:
    return {upper: bitmap & other[upper] for upper, bitmap in one.items() if upper in other}


def _null_lists(segment: OpenSegment) -> Bitmaps:
    file = segment.open_file(FILE)
    return read_set(file.global_buffer(file.integer(_NULLS)), file.name)
