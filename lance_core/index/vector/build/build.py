"""The files of a segment of a vector index.

A sample of the rows trains the centroids and the codes. Then all rows are read, assigned to partitions and
coded, and written partition by partition.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import Observer, stage, unobserved
from lance_core.index.segment_writer import IndexFileWriter, SegmentWriter
from lance_core.index.vector.build.coder import CodedBatch, VectorCoder
from lance_core.index.vector.build.encoders import Encoder
from lance_core.index.vector.build.graphs import SCHEMA as GRAPH_SCHEMA
from lance_core.index.vector.build.graphs import build_graph
from lance_core.index.vector.build.options import METRIC_NUMBERS, VectorOptions, parse_options
from lance_core.index.vector.build.parameters import training_hints
from lance_core.index.vector.build.spilled import SpilledRows
from lance_core.index.vector.build.training import TrainedModel, train
from lance_core.index.vector.build.vectors import VectorType, usable_vectors
from lance_core.index.vector.model import AUXILIARY_FILE, CODES_KEY, INDEX_FILE, KIND_KEY
from lance_core.index.vector.partitions import IVF_KEY, tensor_of
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
    details = vector_details(options)
    if model is None:
        return BuiltSegment(vector_version(options), details, is_empty=True)
    write_segment(rows, options, model, vectors, writer)
    return BuiltSegment(vector_version(options), details)


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
    write_segment(replace(rows, fragments=(), scan=lambda multiple=1: iter(())), options, model, vectors, writer)
    return BuiltSegment(vector_version(options), vector_details(options))


def write_segment(
    rows: IndexedRows,
    options: VectorOptions,
    model: TrainedModel,
    kind: VectorType,
    writer: SegmentWriter,
) -> None:
    """Write the files of a segment with a trained model; errors are those of `build_vector_index`."""
    coder = VectorCoder(options, model, kind)
    coded = coder.code_all(usable_vectors(rows.scan(), kind, options.metric))
    write_coded_segment(coded, rows.num_rows, coder, writer, rows.observer)


def write_coded_segment(
    batches: Iterable[CodedBatch],
    num_rows: int,
    coder: VectorCoder,
    writer: SegmentWriter,
    observer: Observer = unobserved,
) -> None:
    """Write the files of a segment of vectors that are coded already.

    Args:
        batches: The vectors, with the codes of `coder`.
        num_rows: Number of rows that the observer is told; those without a usable vector count.
        coder: The options and the model of the index.
        writer: Writes the files.
        observer: Is told the progress.

    Raises:
        LanceError: Files cannot be written.
    """
    options, num_partitions = coder.options, coder.num_partitions
    loss: float | None = 0.0
    with SpilledRows(num_partitions) as spilled:
        empty = coder.no_rows()  # tells the types of the columns
        spilled.add(empty.partitions, empty.columns)
        with stage(observer, "shuffle", num_rows) as advance:
            for batch in batches:
                spilled.add(batch.partitions, batch.columns)
                loss = None if loss is None or batch.loss is None else loss + batch.loss
                advance(len(batch.partitions))
            spilled.finish()
        with stage(observer, "merge_partitions", num_partitions, "partitions") as advance:
            graphs = _Graphs(options, coder.encoder) if options.has_graph else None
            with writer.create(INDEX_FILE, _schema(graphs.schema if graphs else _MARKER)) as index:
                with writer.create(AUXILIARY_FILE, _schema(coder.schema)) as auxiliary:
                    for number in range(num_partitions):
                        columns = spilled.read(number)
                        keys, *codes = columns
                        auxiliary.write(coder.to_arrow([keys, *coder.encoder.arranged(codes)]))
                        if graphs:
                            graphs.add(index, columns)
                        advance(1)
                    _describe_codes(auxiliary, options, coder.encoder, spilled.lengths)
                _describe_index(index, options, coder.model, loss, graphs)


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


def _schema(columns: pa.Schema) -> Schema:
    return schema_from_arrow(columns, is_table=False)


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
    file: IndexFileWriter,
    options: VectorOptions,
    model: TrainedModel,
    loss: float | None,
    graphs: _Graphs | None,
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


def vector_details(options: VectorOptions) -> bytes:
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


def vector_version(options: VectorOptions) -> int:
    """Return the version of the files; the reference gives RaBitQ another one."""
    return 2 if options.codes == "RQ" else 1
