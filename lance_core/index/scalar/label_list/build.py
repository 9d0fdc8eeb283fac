"""Writing of label list indices.

The file is that of a bitmap index on the elements. A global buffer has the set of rows whose list is null.
Rows with an empty list are in no set.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_core.encodings.values import flatten_lists
from lance_core.index.build import ROW_KEY, VALUE, BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.row_sets import RowSet, TreeMap
from lance_core.index.scalar.bitmap.build import write_sets
from lance_core.index.scalar.parameters import refuse_unknown
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.sets_by_value import SetsByValue

VERSION = 1
"""Version of files with the set of null lists."""
NULL_LISTS = "lance:label_list_nulls"
"""Key of the schema metadata: number of the global buffer with the set of null lists."""


def build_label_list(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the file of a label list index; see `lance_core.index.build.Builder`. It has no parameters."""
    refuse_unknown(parameters)
    null_lists = RowSet()
    element_type = rows.field.type.value_type
    with SetsByValue(element_type, TreeMap()) as sets:
        with stage(rows.observer, "gather", rows.num_rows) as advance:
            for batch in rows.scan():
                sets.add(_elements(batch, null_lists))
                advance(batch.num_rows)
        with stage(rows.observer, "write"):
            write_sets(sets, element_type, writer, {NULL_LISTS: null_lists.to_bytes(TreeMap())})
    return BuiltSegment(VERSION)


def _elements(batch: pa.RecordBatch, null_lists: RowSet) -> pa.RecordBatch:
    """Return the elements of lists with the row keys of the lists. Add the rows of null lists to a set."""
    lists, rows = batch.column(VALUE), np.asarray(batch.column(ROW_KEY))
    if lists.null_count:
        is_null = np.asarray(lists.is_null())
        null_lists.add(rows[is_null])
        lists, rows = lists.filter(pa.array(~is_null)), rows[~is_null]
    lengths = np.diff(np.asarray(lists.offsets))
    return pa.RecordBatch.from_arrays(
        [flatten_lists(lists), pa.array(np.repeat(rows, lengths))], names=[VALUE, ROW_KEY]
    )
