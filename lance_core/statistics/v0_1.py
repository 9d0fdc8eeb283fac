"""Page statistics of 0.1 files.

A file stores its statistics as a table: a struct column per field, named by the field id, with the children
null_count, min_value and max_value, and one row per batch. The writer counted nulls and left them out of the
bounds. But most types lose their nulls when they are stored, and the rows come back as values that the bounds
do not include. Strings lose the difference between null and empty. Therefore the statistics are corrected for
the rows as they are read.

Source: docs/format.md, "0.1".
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.values import offset_bits
from lance_core.errors import CorruptFileError
from lance_core.file.v0_1.reader import ColumnReader, LegacyFile, PageTable
from lance_core.schema import Schema
from lance_core.schema.fields import Field
from lance_core.statistics.collect import page_bounds
from lance_core.statistics.column_statistics import statistics_schema

_CHILDREN = ["null_count", "min_value", "max_value"]

# Writers cut strings of more than 64 bytes between two characters, here at 61 to 64 bytes, and then search
# the greatest. A string that was cut early may be greater than a raised bound that was cut late. Therefore
# only the bytes of a bound are trusted that every cut string still has.
_SURE_BYTES = 61


def page_statistics(file: LegacyFile, field_ids: Collection[int] | None = None) -> dict[int, pa.Table]:
    """Return the statistics of each column by field id, in the form of
    `lance_core.statistics.column_statistics`.

    Columns without statistics are left out.

    Args:
        file: the data file.
        field_ids: the columns to return; None means all.

    Raises:
        CorruptFileError: the statistics contradict the format.
        UnsupportedFeatureError: the file names a type that is not known.
        StorageError: the storage failed.
    """
    message = file.metadata.statistics
    num_batches = len(file.batch_offsets) - 1
    if not message.schema or not num_batches:
        return {}
    pages = PageTable(file.file, message.page_table_position, num_batches=1)
    tables = {}
    for field in Schema(message.schema, {}, file=file.file.name).fields:
        column = _field_id(field, file)
        if field_ids is not None and column not in field_ids:
            continue
        rows = {node.id: node.id for node in field.walk()}
        (stored,) = ColumnReader(pages, np.array([0, num_batches]), field, rows).read(0, num_batches)
        tables[column] = _as_read(column, stored, file)
    return tables


def _field_id(field: Field, file: LegacyFile) -> int:
    if field.name.isdecimal() and [child.name for child in field.children] == _CHILDREN:
        return int(field.name)
    raise CorruptFileError(
        "statistics have a wrong form",
        file=file.file.name,
        column=field.name,
        expected=", ".join(_CHILDREN),
        found=", ".join(child.name for child in field.children),
    )


def _as_read(column: int, stored: pa.StructArray, file: LegacyFile) -> pa.Table:
    """Return the statistics of the rows of a column as they are read, from the stored statistics."""
    null_counts, least, most = stored.flatten()
    starts, rows = file.batch_offsets[:-1], pa.array(np.diff(file.batch_offsets))
    if offset_bits(least.type):
        # A stored bound that is empty reads as null. Then there may be empty strings, which read as null,
        # too, so the number of nulls is unknown.
        is_known = pc.or_(pc.is_valid(least), pc.equal(null_counts, rows))
        null_counts = pc.if_else(is_known, null_counts, pa.scalar(None, pa.int64()))
        if len(most) and (pa.types.is_string(most.type) or pa.types.is_large_string(most.type)):
            most = page_bounds(most, rows_per_zone=1, bound_bytes=_SURE_BYTES)["max"]
    else:
        has_bounds = pc.equal(null_counts, 0)
        least, most = (pc.if_else(has_bounds, bound, pa.scalar(None, bound.type)) for bound in (least, most))
        null_counts = pa.array(np.zeros(len(rows), np.int64))
    nan_counts = (
        pa.nulls(len(rows), pa.int64())
        if pa.types.is_floating(least.type)
        else pa.array(np.zeros(len(rows), np.int64))
    )
    return pa.Table.from_arrays(
        [
            pa.array(np.full(len(rows), column, np.int32)),
            pa.array(np.arange(len(rows), dtype=np.int32)),
            pa.array(starts),
            rows,
            null_counts,
            nan_counts,
            least,
            most,
        ],
        schema=statistics_schema(least.type),
    )
