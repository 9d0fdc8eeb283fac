"""Parameters of a new segment that continues an index: those of one of its segments."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError
from lance_core.index.build import Parameters
from lance_core.index.index_file import IndexFile
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.vector.build.options import METRIC_NUMBERS, VectorOptions
from lance_core.index.vector.codes.product import ProductCodes
from lance_core.index.vector.codes.rotated import RotatedCodes
from lance_core.index.vector.model import AUXILIARY_FILE, INDEX_FILE, SegmentModel
from lance_core.proto import index_pb2

TRAINED = frozenset({"ivf_centroids", "pq_codebook", "rabitq_model", "num_partitions"})
"""Parameters that a new training finds. Bounds of scalar codes always follow the rows."""


_IVF_HINTS = {"max_iters": "lance.ivf.max_iters", "sample_rate": "lance.ivf.sample_rate"}
_PQ_HINTS = {"max_iters": "lance.pq.max_iters", "sample_rate": "lance.pq.sample_rate"}
"""Parameters of the training by name, and the keys that the details of an index have for them."""
_LONGEST_HINT = 6
"""Most digits of a number that is read from the details. A build takes all such numbers."""


def training_hints(options: VectorOptions) -> dict[str, str]:
    """Return the parameters of the training for the details of an index, so that later trainings use them."""
    values = {"max_iters": str(options.max_iterations), "sample_rate": str(options.sample_rate)}
    keys = [*_IVF_HINTS.items(), *(_PQ_HINTS.items() if options.codes == "PQ" else ())]
    return {key: values[name] for name, key in keys}


def vector_parameters(files: SegmentFiles) -> Parameters:
    """Return the parameters of a segment: with its centroids, its codebook and its rotation.

    Raises:
        CorruptFileError: The segment is damaged.
        UnsupportedFeatureError: Its layout is not supported.
        StorageError: The storage failed.
    """
    try:
        details = index_pb2.VectorIndexDetails.FromString(files.details)
    except DecodeError:
        raise CorruptFileError("details of a vector index do not decode", file=files.directory) from None
    parameters = _of_details(details)
    if not files.has(AUXILIARY_FILE):
        return parameters  # the index has no data yet
    with files.open(INDEX_FILE) as index, files.open(AUXILIARY_FILE) as auxiliary:
        model = SegmentModel(IndexFile(index), IndexFile(auxiliary))
        parameters |= {"metric": model.metric, "ivf_centroids": model.centroids, "may_retrain": True}
        if isinstance(model.codes, ProductCodes):
            parameters |= {
                "pq_codebook": model.codes.codebook,
                "num_sub_vectors": model.codes.num_sub_vectors,
                "num_bits": model.codes.num_bits,
                "skip_transpose": not model.codes.is_transposed,
            }
        elif isinstance(model.codes, RotatedCodes):
            parameters["num_bits"] = model.codes.num_bits
            if model.description.get("rotation_type") == "fast":
                parameters["rabitq_model"] = json.dumps(model.description)
    return parameters


def _of_details(details: index_pb2.VectorIndexDetails) -> dict[str, Any]:
    """Return the parameters that the manifest knows."""
    metrics = {number: name for name, number in METRIC_NUMBERS.items()}
    parameters: dict[str, Any] = {"metric": metrics.get(details.metric_type)}
    for name, key in _IVF_HINTS.items():
        text = details.runtime_hints.get(key, "")
        # Other texts, which another library may have written, count as not given.
        if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_HINT and int(text):
            parameters[name] = int(text)
    if details.target_partition_size:
        parameters["target_partition_size"] = details.target_partition_size
    if details.HasField("hnsw_index_config"):
        graph = details.hnsw_index_config
        parameters |= {
            "m": graph.max_connections or None,
            "ef_construction": graph.construction_ef or None,
            "max_level": graph.max_level or None,
        }
    if details.WhichOneof("compression") == "pq":
        parameters |= {
            "num_sub_vectors": details.pq.num_sub_vectors or None,
            "num_bits": details.pq.num_bits or None,
        }
    if details.WhichOneof("compression") == "rq":
        parameters["num_bits"] = details.rq.num_bits or None
    return parameters
