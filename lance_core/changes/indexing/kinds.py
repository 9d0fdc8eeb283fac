"""Kinds of indices that can be built, by the name that callers give them."""

from __future__ import annotations

from collections.abc import Mapping

from lance_core.errors import UnsupportedFeatureError
from lance_core.index.build import IndexKind, RowKeys
from lance_core.index.json.build import json_kind
from lance_core.index.scalar.bitmap.build import build_bitmap
from lance_core.index.scalar.bloom_filter.build import bloom_filter_parameters, build_bloom_filter
from lance_core.index.scalar.btree.build import btree_parameters, build_btree
from lance_core.index.scalar.label_list.build import build_label_list
from lance_core.index.scalar.ngram.build import build_ngram
from lance_core.index.scalar.statistics import (
    bitmap_statistics,
    bloom_filter_statistics,
    btree_statistics,
    ngram_statistics,
    zone_map_statistics,
)
from lance_core.index.scalar.types import check_any, check_hashed, check_list, check_ordered, check_text
from lance_core.index.scalar.zone_map.build import build_zone_map, zone_map_parameters
from lance_core.index.text.build import build_text, check_texts, text_parameters, text_statistics
from lance_core.index.vector.build.kinds import VECTOR_KINDS
from lance_core.proto import table_pb2
from lance_core.table.indices import vector_type

_TABLE, _INDEX = "/lance.table.", "/lance.index.pb."
"""Beginnings of the type URLs of details. The reference has its messages in two packages."""

_PLAIN_KINDS: Mapping[str, IndexKind] = {
    "BTREE": IndexKind(
        _TABLE + "BTreeIndexDetails",
        check_ordered,
        build_btree,
        parameters_of=btree_parameters,
        statistics_of=btree_statistics,
    ),
    "BITMAP": IndexKind(
        _TABLE + "BitmapIndexDetails", check_ordered, build_bitmap, statistics_of=bitmap_statistics
    ),
    "LABEL_LIST": IndexKind(
        _TABLE + "LabelListIndexDetails", check_list, build_label_list, statistics_of=bitmap_statistics
    ),
    "NGRAM": IndexKind(_TABLE + "NGramIndexDetails", check_text, build_ngram, statistics_of=ngram_statistics),
    "ZONEMAP": IndexKind(
        _TABLE + "ZoneMapIndexDetails",
        check_any,
        build_zone_map,
        RowKeys.ADDRESSES,
        zone_map_parameters,
        zone_map_statistics,
    ),
    "BLOOMFILTER": IndexKind(
        _INDEX + "BloomFilterIndexDetails",
        check_hashed,
        build_bloom_filter,
        RowKeys.ADDRESSES,
        bloom_filter_parameters,
        bloom_filter_statistics,
    ),
    "INVERTED": IndexKind(
        _TABLE + "InvertedIndexDetails",
        check_texts,
        build_text,
        parameters_of=text_parameters,
        statistics_of=text_statistics,
    ),
    **VECTOR_KINDS,
}
_INSIDE_JSON = ("BTREE", "BITMAP", "NGRAM")
KINDS: Mapping[str, IndexKind] = {
    **_PLAIN_KINDS,
    "JSON": json_kind(_INDEX + "JsonIndexDetails", {name: _PLAIN_KINDS[name] for name in _INSIDE_JSON}),
}
_OTHER_NAMES = {"FTS": "INVERTED"}
_VECTOR = "vectorindexdetails"


def name_of_kind(segment: table_pb2.IndexMetadata) -> str | None:
    """Return the name of the kind of a segment; None if segments of this kind are not built here."""
    message = segment.index_details.type_url.rpartition(".")[2].lower()
    if message == _VECTOR:
        name = vector_type(segment.index_details.value)
        return name if name in KINDS and segment.index_details.value else None
    return next(
        (name for name, kind in KINDS.items() if kind.type_url.rpartition(".")[2].lower() == message), None
    )


def kind_named(name: str) -> IndexKind:
    """Return the kind with a name such as "BTREE", in upper or lower case.

    Raises:
        UnsupportedFeatureError: There is no such kind.
    """
    kind = KINDS.get(_OTHER_NAMES.get(name.upper(), name.upper()))
    if kind is None:
        raise UnsupportedFeatureError("kind of index", expected=", ".join(KINDS), found=name)
    return kind
