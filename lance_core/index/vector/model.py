"""Description of a segment of a vector index: kind, metric, partitions and codes.

`index.idx` has the centroids of the partitions, `auxiliary.idx` the rows of each partition and the
description of the codes.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.index_file import IndexFile
from lance_core.index.vector.codes.plain import PlainCodes
from lance_core.index.vector.codes.product import ProductCodes
from lance_core.index.vector.codes.rotated import RotatedCodes
from lance_core.index.vector.codes.scalar import ScalarCodes
from lance_core.index.vector.codes.stored_codes import CodeModel, StoredCodes
from lance_core.index.vector.partitions import Partitions, read_partitions

INDEX_FILE, AUXILIARY_FILE = "index.idx", "auxiliary.idx"
KIND_KEY, CODES_KEY = "lance:index", "storage_metadata"
METRICS = ("l2", "cosine", "dot", "hamming")
NEWEST_VERSION = 2
"""Highest `index_version` with a known layout."""

_CODES: dict[str, Callable[[CodeModel], StoredCodes]] = {
    "FLAT": PlainCodes,
    "SQ": ScalarCodes,
    "PQ": ProductCodes,
    "RQ": RotatedCodes,
}


class SegmentModel:
    """Description of a segment, read once for all searches."""

    def __init__(self, index: IndexFile, auxiliary: IndexFile) -> None:
        """Read everything but the rows.

        Raises:
            CorruptFileError: A file contradicts the format.
            UnsupportedFeatureError: A kind or codes that are not supported.
        """
        self.kind, self.metric = _kind(index)
        self.partitions = read_partitions(auxiliary)
        graphs = read_partitions(index, has_rows="HNSW" in self.kind)
        if graphs.centroids is None or len(graphs.centroids) != len(self.partitions):
            raise CorruptFileError(
                "number of centroids",
                file=index.name,
                expected=len(self.partitions),
                found=None if graphs.centroids is None else len(graphs.centroids),
            )
        self.centroids = graphs.centroids
        self.dimension = int(self.centroids.shape[1])
        if not self.dimension or (self.centroids.dtype == np.uint8) != (self.metric == "hamming"):
            raise CorruptFileError(
                f"centroids for {self.metric}",
                file=index.name,
                found=f"{self.centroids.dtype}, {self.dimension} dimensions",
            )
        self.loss = graphs.loss
        self.graph_rows: Partitions | None = None
        self.graph_settings: list[dict[str, Any]] = []
        _, *middle, codes = self.kind.split("_")
        if middle == ["HNSW"]:
            self.graph_rows, self.graph_settings = graphs, _graph_settings(index, len(graphs))
        if middle not in ([], ["HNSW"]) or codes not in _CODES or (middle and codes == "RQ"):
            raise UnsupportedFeatureError("vector index", file=index.name, found=self.kind)
        self.description = _description(auxiliary)
        self.codes: StoredCodes = _CODES[codes](
            CodeModel(
                auxiliary.name,
                self.metric,
                self.dimension,
                self.centroids,
                self.description,
                auxiliary.global_buffer,
                auxiliary.arrow_schema,
            )
        )
        is_bits = self.metric == "hamming"
        self.points: npt.NDArray[Any] = np.ascontiguousarray(
            self.centroids, np.uint8 if is_bits else np.float32
        )
        """Centroids as queries are compared with them."""
        self.filled = np.flatnonzero(self.partitions.lengths)
        """Numbers of the partitions that have rows."""

    @property
    def num_bytes(self) -> int:
        """Estimated memory."""
        return 4 * self.centroids.nbytes + 32 * len(self.partitions) + (1 << 16)


def _kind(index: IndexFile) -> tuple[str, str]:
    """Return the kind and the metric that `index.idx` names."""
    try:
        described = json.loads(index.metadata[KIND_KEY])
        kind, metric = str(described["type"]), str(described["distance_type"]).lower()
    except (KeyError, ValueError, TypeError):
        raise CorruptFileError(f"metadata {KIND_KEY!r} of a vector index", file=index.name) from None
    if metric not in METRICS:
        raise CorruptFileError("metric of a vector index", file=index.name, expected=METRICS, found=metric)
    if not kind.startswith("IVF_"):
        raise UnsupportedFeatureError("vector index", file=index.name, found=kind)
    return kind, metric


def _description(auxiliary: IndexFile) -> dict[str, Any]:
    try:
        described = json.loads(json.loads(auxiliary.metadata[CODES_KEY])[0] or "{}")
    except (KeyError, ValueError, TypeError, IndexError):
        described = None
    if not isinstance(described, dict):
        raise CorruptFileError(f"metadata {CODES_KEY!r} of a vector index", file=auxiliary.name)
    return described


def _graph_settings(index: IndexFile, num_partitions: int) -> list[dict[str, Any]]:
    try:
        settings = [json.loads(text or "{}") for text in json.loads(index.metadata["lance:hnsw"])]
    except (KeyError, ValueError, TypeError):
        settings = []
    if len(settings) < num_partitions or not all(isinstance(each, dict) for each in settings):
        raise CorruptFileError("metadata 'lance:hnsw' of a vector index", file=index.name)
    return settings
