"""Encoded pages, and the leaf columns that they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core.encodings.v2_1.encoders.field_options import EncodingOptions
from lance_core.encodings.v2_1.encoders.shredding import Step
from lance_core.proto import encodings_v2_1_pb2 as proto
from lance_core.schema import Field
from lance_core.storage.base import Bytes


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """Properties that all pages of a leaf column share."""

    field: Field
    steps: tuple[Step, ...]
    """Layers, outermost first. The last one is the leaf."""
    options: EncodingOptions
    is_2_2: bool
    """Whether the file is 2.2, which allows more encodings: docs/format.md, "Types and encodings by version".
    """


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """An encoded page that has no position in the file yet."""

    layout: proto.PageLayout
    buffers: Sequence[Bytes]
    length: int
    """Length in the description of the page: rows, or slots below a fixed-size list of structs."""
    num_rows: int
    """Number of top-level rows."""
    items: pa.Array | None = None
    """The distinct values, if the encoder gave the page a dictionary."""
    bounds: tuple[bytes, bytes] | None = None
    """The least and the greatest value of a page of integers or times without nulls, if known."""
