"""The page that pages of several files make up: chunks or entries stand behind those of other pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_core.encodings.v2_1.layouts.page import ByteRange


@dataclass(frozen=True, slots=True)
class JoinedPage:
    """Description of the page that several pages make up, with buffers in memory of its own."""

    buffers: tuple[ByteRange, ...]
    num_rows: int
    encoding_type = ""
    encoding = b""


def nothing_to_fetch(ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
    """Return nothing: the data for finding rows of a joined page are known, so it asks for no bytes."""
    assert not ranges
    return []
