"""Options and results of building indices, with the names of `lance.indices` of the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyroaring import FrozenBitMap

from lance_core.api.index_training import IndicesBuilder, IvfModel, PqModel
from lance_core.api.late import absent_from
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
]


def __getattr__(name: str) -> object:
    raise absent_from(__name__, name)


@dataclass
class IndexConfig:
    """Kind of an index with its options."""

    index_type: str
    """Kind of the index, such as "btree", in upper or lower case."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """Options of the kind by name."""


@dataclass(frozen=True)
class IndexSegment:
    """Segment of an index, as far as a commit needs it."""

    uuid: str
    fragment_ids: FrozenBitMap
    index_version: int


class IndexFileVersion(str, Enum):  # noqa: UP042 - `str` of a member is that of the reference
    """Layouts of vector indices."""

    LEGACY = "Legacy"
    V3 = "V3"


class SupportedDistributedIndices(str, Enum):  # noqa: UP042 - as above
    """Kinds of indices whose metadata could be merged by old releases."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_SQ = "IVF_SQ"
    VECTOR = "VECTOR"
