"""Kinds of vector indices that can be built."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from lance_core.index.build import IndexKind
from lance_core.index.vector.build.balance import balanced_parameters
from lance_core.index.vector.build.build import build_vector_index, train_vector_model
from lance_core.index.vector.build.parameters import TRAINED, vector_parameters
from lance_core.index.vector.build.vectors import VectorType
from lance_core.index.vector.statistics import vector_statistics

TYPE_URL = "/lance.index.pb.VectorIndexDetails"


def _check(field: pa.Field) -> None:
    VectorType.of(field.type)


VECTOR_KINDS: Mapping[str, IndexKind] = {
    name: IndexKind(
        TYPE_URL,
        _check,
        partial(build_vector_index, name),
        train=partial(train_vector_model, name),
        parameters_of=vector_parameters,
        statistics_of=vector_statistics,
        trained=TRAINED,
        merged_segments=None,
        balanced=balanced_parameters,
    )
    for name in ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
}
