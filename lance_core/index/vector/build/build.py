"""The files of a segment of a vector index.

A sample of the rows trains the centroids and the codes. Then all rows are read, assigned to partitions and
coded, and written partition by partition.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.segment_writer import IndexFileWriter, SegmentWriter
from lance_core.index.vector.build.encoders import Encoder, encoder_of
from lance_core.index.vector.build.graphs import SCHEMA as GRAPH_SCHEMA
from lance_core.index.vector.build.graphs import build_graph
from lance_core.index.vector.build.kmeans import nearest_centroids
from lance_core.index.vector.build.options import METRIC_NUMBERS, VectorOptions, parse_options
from lance_core.index.vector.build.parameters import training_hints
from lance_core.index.vector.build.spilled import SpilledRows
from lance_core.index.vector.build.training import TrainedModel, centroid_metric, comparable, train
from lance_core.index.vector.build.vectors import VectorBatch, VectorType, usable_vectors
from lance_core.index.vector.codes.stored_codes import ROW_KEY
from lance_core.index.vector.model import AUXILIARY_FILE, CODES_KEY, INDEX_FILE, KIND_KEY
from lance_core.index.vector.partitions import IVF_KEY, tensor_of
from lance_core.pool import num_workers, worker_pool
from lance_core.proto import index_pb2
from lance_core.schema import Schema, schema_from_arrow

Array = npt.NDArray[Any]

_MARKER = pa.schema([pa.field("__flat_marker", pa.uint64(), nullable=False)])


def build_vector_index(
    kind: str, rows: IndexedRows, parameters: Parameters, writer: SegmentWriter
) -> BuiltSegment:
    """Write the files of a segment.

    Args:
        kind: `IVF_FLAT`, `IVF_PQ`, ...
        rows: The rows to index.
        parameters: See `parse_options`.
        writer: Writes the files. None are written if the rows are too few to train the index.

    Raises:
        InvalidInputError: A parameter is wrong.
        UnsupportedFeatureError: Codes that do not exist for these vectors.
        LanceError: Rows cannot be read, or files cannot be written.
    """
    vectors = VectorType.of(rows.field.type)
    options = parse_options(kind, parameters, vectors).for_rows(rows.num_rows)
    model = train(rows, options, vectors)
    details = _details(options)
    if model is None:
        return BuiltSegment(_version(options), details, is_empty=True)
    write_segment(rows, options, model, vectors, writer)
    return BuiltSegment(_version(options), details)


def train_vector_model(
    kind: str, rows: IndexedRows, parameters: Parameters, writer: SegmentWriter
) -> BuiltSegment:
    """Write the files of a segment without rows, with the centroids and the codes that training finds.

    Arguments and errors are those of `build_vector_index`.

    Raises:
        InvalidInputError: Or the rows are too few to train the index.
    """
    vectors = VectorType.of(rows.field.type)
    options = parse_options(kind, parameters, vectors)
    model = train(rows, options, vectors)
    if model is None:
        raise InvalidInputError(f"too few rows to train {kind}", found=rows.num_rows)
    write_segment(replace(rows, num_rows=0, scan=lambda: iter(())), options, model, vectors, writer)
    return BuiltSegment(_version(options), _details(options))


def write_segment(
    rows: IndexedRows,
    options: VectorOptions,
    model: TrainedModel,
    kind: VectorType,
    writer: SegmentWriter,
) -> None:
    """Write the files of a segment with a trained model; errors are those of `build_vector_index`."""
    encoder = encoder_of(options, model, kind)
    centroids = comparable(model.centroids, options.metric)
    loss = 0.0

    def coded(batch: VectorBatch) -> _CodedBatch:
        compared = comparable(batch.vectors, options.metric)
        partitions, distances = nearest_centroids(compared, centroids, centroid_metric(options.metric))
        columns = encoder.encode(batch.vectors, partitions)
        return _CodedBatch(partitions, [batch.keys, *columns], float(distances.sum(dtype=np.float64)))

    with SpilledRows(len(centroids)) as spilled:
        # Without rows, this tells the types of the columns.
        nowhere = np.empty(0, np.uint32)
        no_codes = encoder.encode(np.empty((0, kind.dimension), kind.dtype), nowhere)
        spilled.add(nowhere, [np.empty(0, np.uint64), *no_codes])
        with stage(rows.observer, "shuffle", rows.num_rows) as advance:
            for batch in _map_in_pool(coded, usable_vectors(rows.scan(), kind, options.metric)):
                spilled.add(batch.partitions, batch.columns)
                loss += batch.loss
                advance(len(batch.partitions))
            spilled.finish()
        with stage(rows.observer, "merge_partitions", len(centroids), "partitions") as advance:
            graphs = _Graphs(options, encoder) if options.has_graph else None
            with writer.create(INDEX_FILE, _schema(graphs.schema if graphs else _MARKER)) as index:
                with writer.create(AUXILIARY_FILE, _schema(_columns(encoder))) as auxiliary:
                    for number in range(len(centroids)):
                        columns = spilled.read(number)
                        _write_partition(auxiliary, encoder, columns)
                        if graphs:
                            graphs.add(index, columns)
                        advance(1)
                    _describe_codes(auxiliary, options, encoder, spilled.lengths)
                _describe_index(index, options, model, loss, graphs)


class _CodedBatch(NamedTuple):
    partitions: npt.NDArray[np.uint32]
    columns: list[Array]
    loss: float


class _Graphs:
    """Graphs of the partitions, in the order in which they are written."""

    schema = GRAPH_SCHEMA

    def __init__(self, options: VectorOptions, encoder: Encoder) -> None:
        self._options = options
        self._encoder = encoder
        self.descriptions: list[str] = []
        self.lengths: list[int] = []

    def add(self, file: IndexFileWriter, columns: Sequence[Array]) -> None:
        """Build the graph of the next partition, and write it."""
        keys, *codes = columns
        graph = build_graph(self._encoder.compare(codes) if len(keys) else None, self._options)
        file.write(graph.rows)
        self.descriptions.append(json.dumps(graph.description))
        self.lengths.append(graph.rows.num_rows)


def _map_in_pool(
    act: Callable[[VectorBatch], _CodedBatch], batches: Iterable[VectorBatch]
) -> Iterator[_CodedBatch]:
    """Yield the result of each batch, in order. As many batches as there are cores are in work."""
    pool = worker_pool()
    begun: deque[Future[_CodedBatch]] = deque()
    try:
        for batch in batches:
            begun.append(pool.submit(act, batch))
            if len(begun) > num_workers():
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()


def _schema(columns: pa.Schema) -> Schema:
    return schema_from_arrow(columns, is_table=False)


def _columns(encoder: Encoder) -> pa.Schema:
    return pa.schema([pa.field(ROW_KEY, pa.uint64()), *encoder.fields])


def _write_partition(file: IndexFileWriter, encoder: Encoder, columns: Sequence[Array]) -> None:
    keys, *codes = columns
    schema = _columns(encoder)
    arrays = [pa.array(keys)]
    for field, values in zip(encoder.fields, encoder.arranged(codes), strict=True):
        if values.ndim == 1:
            arrays.append(pa.array(values, field.type))
        else:
            flat = pa.array(np.ascontiguousarray(values).reshape(-1), field.type.value_type)
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
    file.write(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _describe_codes(
    file: IndexFileWriter, options: VectorOptions, encoder: Encoder, lengths: npt.NDArray[np.int64]
) -> None:
    ends = np.cumsum(lengths)
    partitions = index_pb2.IVF(offsets=(ends - lengths).tolist(), lengths=lengths.tolist())
    number = file.add_buffer(partitions.SerializeToString())
    for buffer in encoder.buffers:
        file.add_buffer(buffer)
    file.add_metadata(
        {
            IVF_KEY: str(number),
            "distance_type": options.metric,
            CODES_KEY: json.dumps([json.dumps(encoder.description)]),
        }
    )


def _describe_index(
    file: IndexFileWriter, options: VectorOptions, model: TrainedModel, loss: float, graphs: _Graphs | None
) -> None:
    count = len(model.centroids)
    lengths = np.array(graphs.lengths if graphs else [0] * count, np.int64)
    partitions = index_pb2.IVF(
        offsets=(np.cumsum(lengths) - lengths).tolist(),
        lengths=lengths.tolist(),
        centroids_tensor=tensor_of(model.centroids),
        loss=loss,
    )
    file.add_metadata(
        {
            IVF_KEY: str(file.add_buffer(partitions.SerializeToString())),
            KIND_KEY: json.dumps({"type": options.kind, "distance_type": options.metric}),
            "lance:hnsw" if graphs else "lance:flat": json.dumps(graphs.descriptions if graphs else [""] * count),
        }
    )


def _details(options: VectorOptions) -> bytes:
    """Return the details of the index for the manifest."""
    details = index_pb2.VectorIndexDetails(metric_type=METRIC_NUMBERS[options.metric])
    if options.has_target:
        details.target_partition_size = options.target_partition_size
    if options.has_graph:
        graph = details.hnsw_index_config
        graph.max_connections = options.max_neighbors
        graph.construction_ef = options.beam_width
        graph.max_level = options.max_levels
    if options.codes == "PQ":
        details.pq.num_bits, details.pq.num_sub_vectors = options.num_bits, options.num_sub_vectors
    elif options.codes == "SQ":
        details.sq.num_bits = options.num_bits
    elif options.codes == "RQ":
        details.rq.num_bits = options.num_bits
    else:
        details.flat.SetInParent()
    details.runtime_hints.update(training_hints(options))
    return details.SerializeToString()


def _version(options: VectorOptions) -> int:
    """Return the version of the files; the reference gives RaBitQ another one."""
    return 2 if options.codes == "RQ" else 1
