"""The building of indices, with the names of `lance.indices`. Methods of a dataset create and list indices.

options        kinds of indices, their options and their segments
training       IndicesBuilder, and the trained parts of vector indices
"""

from __future__ import annotations

from lance_core.api.indices.options import (
    IndexConfig,
    IndexFileVersion,
    IndexSegment,
    SupportedDistributedIndices,
    build_rq_model,
)
from lance_core.api.indices.training import IndicesBuilder, IvfModel, PqModel
from lance_core.api.names.late import absent_from
from lance_core.table.indices import IndexSegmentDescription

__all__ = [
    "IndexConfig",
    "IndexFileVersion",
    "IndexSegment",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "IvfModel",
    "PqModel",
    "SupportedDistributedIndices",
    "build_rq_model",
]


def __getattr__(name: str) -> object:
    raise absent_from(__name__, name)
