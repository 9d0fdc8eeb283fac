"""Parameters of the build of a vector index, with the names and the defaults of the reference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.index.vector.build.vectors import VectorType
from lance_core.index.vector.codes.rotation import ROUNDS

Floats = npt.NDArray[np.float32]
_STORED = (np.dtype(np.float16), np.dtype(np.float64), np.dtype(np.uint8))

METRIC_NUMBERS = {"l2": 0, "cosine": 1, "dot": 2, "hamming": 3}
"""Metrics by name, with their number in the details of an index."""
_METRIC_ALIASES = {"euclidean": "l2"}
_MOST_PARTITIONS = 4096
_PARTITION_SIZES = {"FLAT": 4096, "RQ": 4096, "PQ": 8192, "SQ": 8192}
_GRAPH_PARTITION_SIZE = 1 << 20
_FEWER_ROWS = 1 << 31
MOST_FILL = 4
"""Partitions with this many times the wanted rows are divided, as in the reference."""
_NAMES = {
    "metric",
    "num_partitions",
    "target_partition_size",
    "ivf_centroids",
    "pq_codebook",
    "num_sub_vectors",
    "num_bits",
    "sample_rate",
    "max_iters",
    "kmeans_redos",
    "filter_nan",
    "skip_transpose",
    "m",
    "ef_construction",
    "max_level",
    "rabitq_model",
    "may_retrain",
}


@dataclass(frozen=True)
class VectorOptions:
    """Checked parameters.

    Attributes:
        kind: `IVF_FLAT`, `IVF_PQ`, ...
        metric: `l2`, `cosine`, `dot` or `hamming`.
        num_partitions: None derives it from the number of rows.
        target_partition_size: Rows of a partition from which the number of partitions is derived.
        has_target: Whether the caller gave this size.
        centroids: Given centroids, one row each.
        codebook: Given codewords, in the order in which files have them.
        num_sub_vectors: Of product codes.
        num_bits: Of a code.
        sample_rate: Rows of the training sample per centroid or codeword.
        max_iterations: Most rounds of k-means.
        is_transposed: Store product codes byte by byte.
        max_neighbors, beam_width, max_levels: Of graphs.
        rotation_signs: Given rotation of RaBitQ codes.
        may_retrain: Whether given centroids are replaced if they are far too few for the rows.
    """

    kind: str
    metric: str
    num_partitions: int | None
    target_partition_size: int
    has_target: bool
    centroids: npt.NDArray[Any] | None
    codebook: Floats | None
    num_sub_vectors: int
    num_bits: int
    sample_rate: int
    max_iterations: int
    is_transposed: bool
    max_neighbors: int
    beam_width: int
    max_levels: int
    rotation_signs: npt.NDArray[np.uint8] | None
    may_retrain: bool

    @property
    def codes(self) -> str:
        """Name of the codes: `FLAT`, `SQ`, `PQ` or `RQ`."""
        return self.kind.rpartition("_")[2]

    @property
    def has_graph(self) -> bool:
        """Whether partitions have graphs."""
        return "HNSW" in self.kind

    def for_rows(self, num_rows: int) -> VectorOptions:
        """Return the options without given centroids that are replaced, and without the codebook for them."""
        if not self.may_retrain or self.centroids is None:
            return self
        if num_rows <= MOST_FILL * self.target_partition_size * len(self.centroids):
            return self
        return replace(self, centroids=None, codebook=None)

    def partitions_of(self, num_rows: int) -> int:
        """Return the number of partitions of an index of `num_rows` rows, 1 or more."""
        if self.centroids is not None:
            return len(self.centroids)
        wanted = self.num_partitions
        if wanted is None:
            wanted = min(num_rows // self.target_partition_size, _MOST_PARTITIONS)
        return max(1, min(wanted, num_rows))


def parse_options(kind: str, parameters: Mapping[str, object], vectors: VectorType) -> VectorOptions:
    """Return the parameters of a build.

    Args:
        kind: `IVF_FLAT`, `IVF_PQ`, ...
        parameters: Values by name. None counts as not given.
        vectors: Type of the vectors.

    Raises:
        InvalidInputError: A parameter is unknown, or its value is wrong.
        UnsupportedFeatureError: Codes of these vectors, or with this metric, do not exist.
    """
    dimension, element = vectors.dimension, vectors.element
    given = {name: value for name, value in parameters.items() if value is not None}
    unknown = given.keys() - _NAMES
    if unknown:
        raise InvalidInputError("parameter of a vector index", expected=sorted(_NAMES), found=sorted(unknown))
    codes = kind.rpartition("_")[2]
    has_graph = "HNSW" in kind
    metric = _metric(given.get("metric"), element)
    if (metric == "hamming") != (element == pa.uint8()) or (metric == "hamming" and codes != "FLAT"):
        raise UnsupportedFeatureError(f"{kind} index with metric {metric}", found=element)
    if vectors.is_multiple and metric != "cosine":
        raise InvalidInputError("metric of rows with several vectors", expected="cosine", found=metric)
    usual_size = _GRAPH_PARTITION_SIZE if has_graph else _PARTITION_SIZES[codes]
    num_bits = _number(given, "num_bits", 5 if codes == "RQ" else 8, 1, 9)
    num_sub_vectors = _number(given, "num_sub_vectors", max(1, dimension // 16), 1, dimension)
    if codes == "PQ":
        if "num_sub_vectors" not in given:
            num_sub_vectors = _usual_sub_vectors(dimension)
        _check_product(dimension, num_sub_vectors, num_bits)
    elif codes == "SQ" and num_bits != 8:
        raise InvalidInputError("num_bits of scalar quantisation", expected=8, found=num_bits)
    elif codes == "RQ" and dimension % 8:
        raise InvalidInputError("vector dimension must be divisible by 8 for IVF_RQ", found=dimension)
    return VectorOptions(
        kind=kind,
        metric=metric,
        num_partitions=_number(given, "num_partitions", 0, 1, _FEWER_ROWS) or None,
        target_partition_size=_number(given, "target_partition_size", usual_size, 1, _FEWER_ROWS),
        has_target="target_partition_size" in given,
        centroids=_matrix(given.get("ivf_centroids"), "ivf_centroids", dimension),
        codebook=_codebook(given.get("pq_codebook"), num_bits, dimension) if codes == "PQ" else None,
        num_sub_vectors=num_sub_vectors,
        num_bits=num_bits,
        sample_rate=_number(given, "sample_rate", 256, 1, 1 << 20),
        max_iterations=_number(given, "max_iters", 50, 1, 1 << 20),
        is_transposed=not given.get("skip_transpose", False),
        max_neighbors=_number(given, "m", 20, 2, 1 << 12),
        beam_width=_number(given, "ef_construction", 150, 1, 1 << 16),
        max_levels=_number(given, "max_level", 7, 1, 64),
        rotation_signs=_signs(given.get("rabitq_model"), dimension) if codes == "RQ" else None,
        may_retrain=bool(given.get("may_retrain")),
    )


def _metric(given: object, element: pa.DataType) -> str:
    if given is None:
        return "hamming" if element == pa.uint8() else "l2"
    name = str(given).lower()
    name = _METRIC_ALIASES.get(name, name)
    if name not in METRIC_NUMBERS:
        raise InvalidInputError("metric", expected=", ".join(METRIC_NUMBERS), found=given)
    return name


def _number(given: Mapping[str, object], name: str, default: int, least: int, most: int) -> int:
    if name not in given:
        return default
    value = given[name]
    is_whole = isinstance(value, int | np.integer) or (isinstance(value, float) and value.is_integer())
    whole = int(cast(int, value)) if is_whole else None
    if whole is None or isinstance(value, bool) or not least <= whole <= most:
        raise InvalidInputError(name, expected=f"a whole number from {least} to {most}", found=value)
    return whole


def _usual_sub_vectors(dimension: int) -> int:
    for size in (16, 8):
        if dimension % size == 0:
            return dimension // size
    return dimension


def _check_product(dimension: int, num_sub_vectors: int, num_bits: int) -> None:
    if num_bits not in (4, 8):
        raise InvalidInputError("num_bits of product quantisation", expected="4 or 8", found=num_bits)
    if dimension % num_sub_vectors:
        raise InvalidInputError(
            f"dimension {dimension} must be divisible by num_sub_vectors", found=num_sub_vectors
        )
    if num_bits == 4 and num_sub_vectors % 2:
        raise InvalidInputError("num_sub_vectors with 4 bits", expected="an even number", found=num_sub_vectors)


def _signs(given: object, dimension: int) -> npt.NDArray[np.uint8] | None:
    """Return the signs of the rotation in a description of RaBitQ codes, as JSON."""
    if given is None:
        return None
    try:
        signs = np.array(json.loads(str(given))["fast_rotation_signs"], np.uint8)
    except (ValueError, TypeError, KeyError, OverflowError):
        signs = np.empty(0, np.uint8)
    if signs.shape != (ROUNDS * -(-dimension // 8),):
        raise InvalidInputError(
            "rabitq_model", expected=f"JSON with {ROUNDS * -(-dimension // 8)} fast_rotation_signs"
        )
    return signs


def _matrix(given: object, name: str, dimension: int) -> npt.NDArray[Any] | None:
    if given is None:
        return None
    if isinstance(given, (pa.ChunkedArray, pa.Array)):
        array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if not pa.types.is_fixed_size_list(array.type) or array.null_count:
            raise InvalidInputError(name, expected="fixed-size lists of numbers", found=array.type)
        values: npt.NDArray[Any] = np.asarray(array.flatten().to_numpy(zero_copy_only=False))
        values = values.reshape(len(array), -1)
    else:
        values = np.asarray(given)
    if values.ndim != 2 or values.shape[1] != dimension or not len(values):
        raise InvalidInputError(name, expected=f"rows of {dimension} numbers", found=values.shape)
    return values if values.dtype in _STORED else _finite(values, name)


def _codebook(given: object, num_bits: int, dimension: int) -> Floats | None:
    if given is None:
        return None
    if isinstance(given, (pa.ChunkedArray, pa.Array)):
        array = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        while pa.types.is_fixed_size_list(array.type):
            array = array.flatten()
        values: npt.NDArray[Any] = np.asarray(array.to_numpy(zero_copy_only=False))
    else:
        values = np.asarray(given)
    if values.size != dimension << num_bits:
        raise InvalidInputError(
            f"pq_codebook must have {dimension << num_bits} numbers, of the shape "
            f"(sub_vectors, {1 << num_bits}, dim) for num_bits={num_bits}, got {values.shape}"
        )
    return _finite(values.reshape(-1), "pq_codebook")


def _finite(values: npt.NDArray[Any], name: str) -> Floats:
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(values, np.float32)
    if not np.isfinite(numbers).all():
        raise InvalidInputError(name, expected="finite numbers")
    return numbers
