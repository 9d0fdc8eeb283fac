"""Reading of index segments into the cache, ahead of queries.

The cache gets the same objects as from a search, until it is nearly full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lance_core.index.scalar.bitmap.search import BitmapFile
from lance_core.index.scalar.bloom_filter.search import warm as warm_bloom_filter
from lance_core.index.scalar.btree.search import warm as warm_btree
from lance_core.index.scalar.ngram.search import warm as warm_ngram
from lance_core.index.scalar.zone_map.search import warm as warm_zone_map
from lance_core.index.segments import OpenSegment
from lance_core.index.text.segment import open_text_segment
from lance_core.index.vector.opened import OpenVectorSegment

_FULL = 7 / 8
"""Share of the cache above which nothing more is read ahead."""


def warm_segment(segment: OpenSegment) -> None:
    """Read a segment of an index into the cache. Segments of other kinds are left alone.

    Raises:
        LanceError: A file is missing, contradicts the format, or has a layout that is not supported.
    """
    steps = _STEPS.get(segment.entry.kind)
    for _ in () if steps is None else steps(segment):
        if segment.cache.use().bytes > _FULL * segment.cache.max_bytes:
            return


def _warm_bitmap(segment: OpenSegment) -> Iterator[None]:
    BitmapFile(segment)
    yield


def _warm_text(segment: OpenSegment) -> Iterator[None]:
    for partition in open_text_segment(segment).partitions:
        yield from partition.warm()


def _warm_vectors(segment: OpenSegment) -> Iterator[None]:
    yield from OpenVectorSegment(segment).warm()


_STEPS: Mapping[str, Callable[[OpenSegment], Iterator[None]]] = {
    "btree": warm_btree,
    "bitmap": _warm_bitmap,
    "labellist": _warm_bitmap,
    "ngram": warm_ngram,
    "zonemap": warm_zone_map,
    "bloomfilter": warm_bloom_filter,
    "inverted": _warm_text,
    "vector": _warm_vectors,
}
"""Functions that read a little at each step, by the kind of the segment."""
