"""Kinds of scalar indices that searches use, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lance_core.index.scalar.answers import Answer
from lance_core.index.scalar.bitmap.search import search as search_bitmap
from lance_core.index.scalar.bitmap.search import value_type as type_of_bitmap
from lance_core.index.scalar.bloom_filter.search import search as search_bloom_filter
from lance_core.index.scalar.btree.search import search as search_btree
from lance_core.index.scalar.btree.search import value_type as type_of_btree
from lance_core.index.scalar.label_list.search import search as search_label_list
from lance_core.index.scalar.ngram.search import search as search_ngram
from lance_core.index.scalar.questions import Question
from lance_core.index.scalar.zone_map.search import search as search_zone_map
from lance_core.index.scalar.zone_map.search import value_type as type_of_zone_map
from lance_core.index.segments import OpenSegment
from lance_core.index.text.words import search as search_words

ValueType = Callable[[OpenSegment], pa.DataType]
Search = Callable[[OpenSegment, Question, int], Answer | None]
"""Function that answers a question to a segment, with about the given number of rows or fewer."""


@dataclass(frozen=True)
class SearchableKind:
    """Kind of index that answers questions.

    Attributes:
        search: Answers a question.
        newest_version: Highest `index_version` with a known layout.
        first_version_of_addresses: Lowest `index_version` whose row keys are addresses in a table with stable
            row ids; None if they are ids in all versions.
        reads_rows: Whether an answer takes longer the more rows it has.
        value_type: Returns the type of the values of a segment. None: the files do not tell.
    """

    search: Search
    newest_version: int
    first_version_of_addresses: int | None = None
    reads_rows: bool = True
    value_type: ValueType | None = None

    def keys_are_addresses(self, version: int, stable_row_ids: bool) -> bool:
        """Return whether the row keys of a segment are row addresses; otherwise they are stable row ids."""
        first = self.first_version_of_addresses
        return not stable_row_ids or (first is not None and version >= first)


SEARCHABLE = {
    "btree": SearchableKind(search_btree, 1, first_version_of_addresses=1, value_type=type_of_btree),
    "bitmap": SearchableKind(search_bitmap, 0, reads_rows=False, value_type=type_of_bitmap),
    "labellist": SearchableKind(search_label_list, 1, reads_rows=False),
    "ngram": SearchableKind(search_ngram, 0, value_type=lambda segment: pa.string()),
    "zonemap": SearchableKind(search_zone_map, 0, first_version_of_addresses=0, value_type=type_of_zone_map),
    "bloomfilter": SearchableKind(search_bloom_filter, 0, first_version_of_addresses=0),
    "inverted": SearchableKind(search_words, 3),
}
"""Kinds by name, see `lance_core.table.indices.IndexSegment.kind`.

Kinds that give exact answers come first.
"""
