"""Full text indices, rewritten with new row addresses.

A document is a row of `part_<n>_docs.lance`. Posting lists refer to the number of this row, so documents of
removed rows must stay. Such a document keeps its old address. Its fragment is in no version any more, and
`metadata.lance` lists the fragment as deleted. Scores count such documents, as they counted documents of
deleted rows before the compaction.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyroaring

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.moving.copying import SegmentCopy
from lance_core.index.moving.moved_rows import Moves
from lance_core.index.segment_files import SourceFile
from lance_core.number_sets import distinct

_MOST_PARTITIONS = 1 << 16


def move_text(copy: SegmentCopy, rows: Moves) -> None:
    """Rewrite a full text index.

    Raises:
        UnsupportedFeatureError: the index has the layout of an old release.
    """
    if not copy.source.has("metadata.lance"):
        raise UnsupportedFeatureError("full text index of an old layout", file=copy.source.directory)
    with copy.source.source("metadata.lance") as source:
        partitions = _partitions(source)
        gone = pyroaring.BitMap()

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            place = batch.schema.get_field_index("_rowid")
            addresses = batch.column(place).to_numpy().astype(np.uint64)
            translated, kept = rows.translate(addresses)
            gone.update(distinct(addresses[~kept] >> np.uint64(32)).tolist())
            return batch.set_column(place, batch.schema.field(place), pa.array(translated))

        for number in partitions:
            copy.copy(f"part_{number}_docs.lance", step)
            for name in ("tokens", "invert"):
                copy.copy_bytes(f"part_{number}_{name}.lance")
        copy.write("metadata.lance", source, [_left_out(source, gone)])


def _partitions(source: SourceFile) -> list[int]:
    try:
        numbers = json.loads(source.metadata["partitions"])
        if not isinstance(numbers, list) or len(numbers) > _MOST_PARTITIONS:
            raise ValueError(numbers)
        return [int(number) for number in numbers]
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptFileError("partitions of a full text index", file=source.name, found=error) from None


def _left_out(source: SourceFile, gone: pyroaring.BitMap) -> pa.RecordBatch:
    """Return the rows of the metadata file with the fragments `gone` added to the deleted fragments."""
    batch = source.read(0, source.num_rows)
    if not gone:
        return batch
    if batch.schema.names != ["deleted_fragments"] or batch.num_rows > 1:
        raise UnsupportedFeatureError("full text index of an old layout", file=source.name)
    for data in batch.column(0).to_pylist():
        try:
            gone = gone | pyroaring.BitMap.deserialize(data)
        except (ValueError, IndexError) as error:
            raise CorruptFileError("fragments that are left out", file=source.name, found=error) from None
    return pa.RecordBatch.from_arrays([pa.array([bytes(gone.serialize())], pa.binary())], schema=batch.schema)
