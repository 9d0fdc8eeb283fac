"""Kinds of indices with their options, and segments of indices."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyroaring import FrozenBitMap

from lance_core.errors import InvalidInputError

__all__ = [
    "IndexConfig",
    "IndexFileVersion",
    "IndexSegment",
    "SupportedDistributedIndices",
    "build_rq_model",
]


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


def build_rq_model(dimension: int, num_bits: int = 1, dtype: str = "float32") -> str:
    """Return a random rotation for "IVF_RQ" as JSON, for `rabitq_model` of `create_index_uncommitted`.

    Several machines build segments of one index with the same rotation and `ivf_centroids`. The reference
    merges only such segments.

    Args:
        dimension: Elements of a vector.
        num_bits: Bits per dimension of a code, 1 to 9.
        dtype: Elements of the vectors: "float16", "float32" or "float64". The rotation is the same for all.

    Raises:
        InvalidInputError: `dimension` is no multiple of 8, or another argument is out of range.
    """
    from lance_core.index.vector.codes.rotation import (  # late: it is rarely needed
        describe_codes,
        random_signs,
    )

    if dimension < 8 or dimension % 8:
        raise InvalidInputError("vector dimension must be divisible by 8 for IVF_RQ", found=dimension)
    if not 1 <= num_bits <= 9:
        raise InvalidInputError("num_bits", expected="1 to 9", found=num_bits)
    if dtype.lower() not in ("float16", "float32", "float64"):
        raise InvalidInputError("dtype", expected="float16, float32 or float64", found=dtype)
    return json.dumps(describe_codes(random_signs(dimension), dimension, num_bits))
