"""Vector indices, rewritten with new row addresses. Vectors are neither read nor assigned to partitions
again.

`auxiliary.idx` has a row address and a code per row, one partition after the other. Two kinds of codes are
not stored row by row. Product quantisation stores one sequence of bytes per sub-vector of a partition, and
RaBitQ stores blocks of 32 rows. These codes are converted to rows before rows are removed, and back
afterwards.

A graph (HNSW) in `index.idx` refers to rows by their position in the partition. Therefore removed rows keep
their position and their old address. Their fragment is in no version any more. It stays in the coverage of
the index, so that readers ignore these rows.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.file.writer_options import FileTail
from lance_core.index.moving.copying import SegmentCopy
from lance_core.index.moving.moved_rows import Flags, Moves, with_new_addresses
from lance_core.index.moving.scalar import buffer_number
from lance_core.index.segment_files import SourceFile
from lance_core.index.vector.layouts import Codes, packed, transposed, transposed_back, unpacked
from lance_core.proto import index_pb2

_AUXILIARY = "auxiliary.idx"

Turn = Callable[[Codes], Codes]


def move_vector(copy: SegmentCopy, rows: Moves) -> None:
    """Rewrite a vector index.

    Raises:
        UnsupportedFeatureError: the index has the layout of old releases, or its partitions are not
            contiguous.
    """
    if not copy.source.has(_AUXILIARY):
        raise UnsupportedFeatureError("vector index of an old layout", file=copy.source.directory)
    with copy.source.source("index.idx") as graph:
        has_graph = b"_HNSW_" in graph.metadata.get("lance:index", b"")
    with copy.source.source(_AUXILIARY) as source:
        partitions = _Partitions.of(source)
        batches = _moved(source, partitions, rows, keeps_places=has_graph)
        copy.write(_AUXILIARY, source, batches, partitions.tail)
    copy.copy_bytes("index.idx")


@dataclass
class _Partitions:
    """Positions of the rows of each partition."""

    message: index_pb2.IVF
    buffer: int
    """Index of the IVF message in the list of the global buffers 1, 2, ..."""
    order: list[int]
    """Partitions in the order of their rows."""
    left: list[int] = field(default_factory=list)
    """Number of remaining rows of each partition, in the order of `order`."""

    @classmethod
    def of(cls, source: SourceFile) -> _Partitions:
        """Read the description of the partitions from a file."""
        buffers = source.global_buffers()
        number = buffer_number(source.metadata.get("lance:ivf", b""), len(buffers), source.name)
        try:
            message = index_pb2.IVF.FromString(buffers[number])
        except DecodeError:
            raise CorruptFileError("partitions of a vector index do not decode", file=source.name) from None
        starts, lengths = list(message.offsets), list(message.lengths)
        if len(starts) != len(lengths) or sum(lengths) != source.num_rows:
            raise CorruptFileError(
                "rows of the partitions", file=source.name, expected=source.num_rows, found=sum(lengths)
            )
        order = sorted(range(len(starts)), key=lambda place: (starts[place], lengths[place]))
        ends = np.cumsum([0, *(lengths[place] for place in order)]).tolist()
        if [starts[place] for place in order if lengths[place]] != [
            end for end, place in zip(ends[:-1], order, strict=True) if lengths[place]
        ]:
            raise UnsupportedFeatureError("partitions that are not one behind the other", file=source.name)
        return cls(message, number, order)

    def runs(self, rows_at_once: int) -> Iterator[list[int]]:
        """Yield the row counts of neighbouring partitions, in lists of about `rows_at_once` rows."""
        run: list[int] = []
        num_rows = 0
        for place in self.order:
            run.append(self.message.lengths[place])
            num_rows += run[-1]
            if num_rows >= rows_at_once:
                yield run
                run, num_rows = [], 0
        if run:
            yield run

    def tail(self, source: SourceFile) -> FileTail:
        """Return the global buffers of the new file."""
        message = index_pb2.IVF()
        message.CopyFrom(self.message)
        ends = np.cumsum([0, *self.left]).tolist()
        for place, start, length in zip(self.order, ends[:-1], self.left, strict=True):
            message.offsets[place], message.lengths[place] = start, length
        buffers = source.global_buffers()
        buffers[self.buffer] = message.SerializeToString()
        return FileTail(buffers=buffers)


def _moved(
    source: SourceFile, partitions: _Partitions, rows: Moves, *, keeps_places: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the remaining rows, several whole partitions at a time."""
    row_id = source.arrow_schema.get_field_index("_rowid")
    if row_id < 0:
        raise CorruptFileError("index file has no row addresses", file=source.name, expected="_rowid")
    turned = _turned_columns(source)
    start = 0
    for run in partitions.runs(source.rows_at_once):
        batch = source.read(start, start + sum(run))
        start += sum(run)
        batch, kept = with_new_addresses(batch, row_id, rows)
        if keeps_places or kept.all():
            partitions.left += run
            yield batch
            continue
        flags = np.split(kept, np.cumsum(run)[:-1])
        partitions.left += [int(each.sum()) for each in flags]
        left = batch.filter(pa.array(kept))
        for place, (turn_back, turn) in turned.items():
            codes = _left_codes(batch.column(place), flags, turn_back, turn)
            left = left.set_column(place, left.schema.field(place), codes)
        yield left


def _turned_columns(source: SourceFile) -> dict[int, tuple[Turn, Turn]]:
    """Return the columns whose codes are not stored row by row, with the functions to convert them to rows
    and back.
    """
    try:
        (text,) = json.loads(source.metadata["storage_metadata"])
        described = json.loads(text or "{}")
        is_transposed, is_packed = bool(described.get("transposed")), bool(described.get("packed"))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError("description of the codes", file=source.name, found=error) from None
    turned: dict[int, tuple[Turn, Turn]] = {}
    if is_transposed:
        turned[source.arrow_schema.get_field_index("__pq_code")] = (transposed_back, transposed)
    if is_packed:
        turned[source.arrow_schema.get_field_index("_rabit_codes")] = (unpacked, packed)
    if -1 in turned:
        raise CorruptFileError("column of the codes is missing", file=source.name)
    return turned


def _left_codes(column: pa.FixedSizeListArray, flags: list[Flags], turn_back: Turn, turn: Turn) -> pa.Array:
    width = column.type.list_size
    codes = column.flatten().to_numpy().reshape(-1, width)
    parts = np.split(codes, np.cumsum([len(each) for each in flags])[:-1])
    left = [
        part if each.all() else turn(turn_back(part)[each]) for part, each in zip(parts, flags, strict=True)
    ]
    return pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(left).ravel()), type=column.type)
