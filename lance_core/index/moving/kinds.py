"""Kinds of indices whose files can be rewritten, and the functions that do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lance_core.index.moving.copying import SegmentCopy
from lance_core.index.moving.moved_rows import Moves
from lance_core.index.moving.scalar import move_bitmap, move_btree, move_ngram
from lance_core.index.moving.text import move_text
from lance_core.index.moving.vector import move_vector

Mover = Callable[[SegmentCopy, Moves], None]
"""Writes the files of a segment with new row addresses."""


@dataclass(frozen=True)
class Movable:
    """Kind of index whose files can be rewritten."""

    move: Mover
    newest_version: int
    """Highest `index_version` with a known layout."""


MOVABLE = {
    "btree": Movable(move_btree, 1),
    "bitmap": Movable(move_bitmap, 0),
    "labellist": Movable(move_bitmap, 1),
    "ngram": Movable(move_ngram, 0),
    "inverted": Movable(move_text, 3),
    "vector": Movable(move_vector, 2),
}
"""Rewritable kinds by name, see `lance_core.commit.index_section.kind_of`.

Zone maps and Bloom filters are missing: they describe ranges of rows, and the reference does not rewrite them
either.
"""
