"""Steps of a vector index with product codes that is built on several machines: code, sort, and build.

Files between the steps have the columns of the reference: coded rows are those of `coded_schema`. Files of
sorted rows have one row per partition, which is a list of coded rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_core.changes.checked_reads import address_finder
from lance_core.changes.indexing.column import IndexedColumn, indexed_rows
from lance_core.changes.indexing.kinds import KINDS
from lance_core.changes.indexing.segment import segment_entry
from lance_core.changes.indexing.training import vector_type
from lance_core.errors import ColumnTypeError, InvalidInputError
from lance_core.index.build import BuiltSegment, RowKeys
from lance_core.index.progress import unobserved
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.vector.build.build import vector_details, vector_version, write_coded_segment
from lance_core.index.vector.build.coder import CodedBatch, VectorCoder
from lance_core.index.vector.build.options import parse_options
from lance_core.index.vector.build.spilled import SpilledRows
from lance_core.index.vector.build.training import given_model
from lance_core.index.vector.build.vectors import usable_vectors
from lance_core.number_sets import distinct
from lance_core.proto import table_pb2
from lance_core.scan.take.keys import fragments_of
from lance_core.table.snapshot import Snapshot

_KIND = "IVF_PQ"
_ROW_ID, _PARTITION, _CODE = "_rowid", "__ivf_part_id", "__pq_code"
SORTED = "partitions"
"""Name of the column of sorted rows."""


def coded_schema(code_bytes: int) -> pa.Schema:
    """Return the schema of coded rows, with `code_bytes` bytes of codes per row."""
    return pa.schema(
        [
            pa.field(_ROW_ID, pa.uint64()),
            pa.field(_PARTITION, pa.uint32()),
            pa.field(_CODE, pa.list_(pa.uint8(), code_bytes)),
        ]
    )


def coded_vectors(
    snapshot: Snapshot, column: str, parameters: Mapping[str, object], fragment_ids: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Yield the partition and the codes of every vector of some fragments that an index may have.

    Args:
        snapshot: The version to read.
        column: Dotted path of the column.
        parameters: Options of an IVF_PQ index by name, with the centroids and the codebook.
        fragment_ids: Ids of the fragments.

    Raises:
        UnknownColumnError: There is no such column.
        ColumnTypeError: It has no vectors.
        InvalidInputError: A parameter is wrong.
        LanceError: Rows cannot be read.
    """
    resolved, coder, metric = _coder(snapshot, column, parameters)
    kind = vector_type(snapshot, column)[1]
    rows = indexed_rows(snapshot, resolved, sorted(set(fragment_ids)), RowKeys.IDS, unobserved)
    for batch in coder.code_all(usable_vectors(rows.scan(), kind, metric)):
        keys, codes = batch.columns
        yield _coded_batch(keys, batch.partitions, codes)


def by_partition(batches: Iterable[pa.RecordBatch], num_partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield one row per partition, a list of coded rows; no rows if there are no coded rows.

    Memory is bounded, apart from the rows of one partition. More rows wait in a temporary file.

    Raises:
        InvalidInputError: Rows have other columns, or a partition is out of range.
        StorageError: The temporary file cannot be written.
    """
    with SpilledRows(num_partitions) as spilled:
        for batch in batches:
            rows = _read_coded(batch, num_partitions)
            spilled.add(rows.partitions, rows.columns)
        spilled.finish()
        for number in range(num_partitions if spilled.lengths.any() else 0):
            keys, codes = spilled.read(number)
            rows = _coded_batch(keys, np.full(len(keys), number, np.uint32), codes)
            lists = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), rows.to_struct_array())
            yield pa.record_batch({SORTED: lists})


def build_of_coded(
    snapshot: Snapshot,
    column: str,
    parameters: Mapping[str, object],
    batches: Iterable[pa.RecordBatch],
    *,
    sync: bool = True,
) -> table_pb2.IndexMetadata:
    """Write the files of a segment of coded rows, which covers the fragments of the rows.

    Args:
        snapshot: The version with the rows.
        column: Dotted path of the column.
        parameters: The options that the rows were coded with.
        batches: The coded rows in any order, or rows of `by_partition`.
        sync: On local disks make the files durable before returning.

    Returns:
        The entry for the manifest. It belongs to no version yet.

    Raises:
        UnknownColumnError: There is no such column.
        ColumnTypeError: It has no vectors.
        InvalidInputError: A parameter is wrong, rows have other columns or were coded otherwise, there are no
            rows, or the table lacks their fragments.
        LanceError: Files cannot be written. No files are left.
    """
    resolved, coder, _ = _coder(snapshot, column, parameters)
    finder = _Fragments(snapshot)
    num_bytes = coder.encoder.fields[0].type.list_size

    def read() -> Iterator[CodedBatch]:
        for batch in batches:
            rows = _read_coded(batch, coder.num_partitions, num_bytes)
            finder.add(rows.columns[0])
            yield rows

    writer = SegmentWriter(snapshot.storage, None, sync=sync)
    try:
        write_coded_segment(read(), 0, coder, writer)
        covered = finder.found()
        files = writer.finish()
    except BaseException:
        writer.discard()
        raise
    built = BuiltSegment(vector_version(coder.options), vector_details(coder.options))
    return segment_entry(snapshot, resolved, KINDS[_KIND].type_url, built, covered, files, writer.uuid)


class _Fragments:
    """Fragments of the rows of a segment."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._known = pyroaring.BitMap(snapshot.manifest.fragment_by_id)
        self._found = pyroaring.BitMap()
        self._addresses = address_finder(snapshot) if snapshot.manifest.has_stable_row_ids else None

    def add(self, keys: npt.NDArray[np.uint64]) -> None:
        """Add the fragments of rows. A stable row id without a row adds none."""
        addresses = keys
        if self._addresses is not None:
            addresses, is_there = self._addresses.located(keys)
            addresses = addresses[is_there]
        self._found |= pyroaring.BitMap(distinct(fragments_of(addresses)).tolist())

    def found(self) -> pyroaring.BitMap:
        """Return the ids of all fragments that were added.

        Raises:
            InvalidInputError: There are none, or the table lacks one of them.
        """
        missing = self._found - self._known
        if missing or not self._found:
            raise InvalidInputError(
                "fragments of the coded rows",
                expected="fragments of the dataset; code the rows again after a compaction",
                found=sorted(missing)[:10] or "no rows",
            )
        return self._found


def _coder(
    snapshot: Snapshot, column: str, parameters: Mapping[str, object]
) -> tuple[IndexedColumn, VectorCoder, str]:
    """Return the column, the coder of a given model, and the metric."""
    resolved, kind = vector_type(snapshot, column)
    if kind.element == pa.uint8():
        raise ColumnTypeError(f"column {column} has no product codes", found=resolved.field.arrow_type)
    options = parse_options(_KIND, parameters, kind)
    return resolved, VectorCoder(options, given_model(options, kind), kind), options.metric


def _coded_batch(
    keys: npt.NDArray[Any], partitions: npt.NDArray[np.uint32], codes: npt.NDArray[Any]
) -> pa.RecordBatch:
    schema = coded_schema(codes.shape[1])
    flat = pa.array(np.ascontiguousarray(codes).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(flat, type=schema.field(_CODE).type)
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(partitions), lists], schema=schema)


def _read_coded(batch: pa.RecordBatch, num_partitions: int, num_bytes: int | None = None) -> CodedBatch:
    """Return coded rows as arrays, with `num_bytes` of codes each; None allows any number.

    The batch has coded rows, or lists of them.
    """
    if batch.schema.names == [SORTED] and pa.types.is_list(batch.schema.types[0]):
        rows = batch.column(0).flatten()
        if pa.types.is_struct(rows.type):
            batch = pa.RecordBatch.from_struct_array(rows)
    names = batch.schema.names
    missing = {_ROW_ID, _PARTITION, _CODE} - set(names)
    if missing:
        raise InvalidInputError("columns of coded vectors", expected=sorted(missing), found=names)
    code = batch[_CODE]
    width = code.type.list_size if pa.types.is_fixed_size_list(code.type) else 0
    expected = coded_schema(num_bytes or width)
    chosen = batch.select(expected.names)
    if not width or chosen.schema.types != expected.types or any(each.null_count for each in chosen.columns):
        raise InvalidInputError(
            "types of coded vectors", expected=f"{expected.types} without nulls", found=chosen.schema.types
        )
    keys, partitions = (np.asarray(chosen.column(number)) for number in range(2))
    if len(partitions) and partitions.max() >= num_partitions:
        raise InvalidInputError("partition", expected=f"less than {num_partitions}", found=partitions.max())
    return CodedBatch(partitions, [keys, np.asarray(code.flatten()).reshape(-1, width)], None)
