"""Facts about segments of scalar indices that their files contain, with the keys of the reference.

Each function raises `CorruptFileError` if a file is damaged.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_core.index.scalar.bloom_filter.build import (
    DEFAULT_ITEMS,
    DEFAULT_PROBABILITY,
    NUM_ITEMS,
    PROBABILITY,
    bloom_filter_parameters,
)
from lance_core.index.scalar.bloom_filter.build import FILE as BLOOM_FILTER_FILE
from lance_core.index.scalar.zone_map.build import DEFAULT_ROWS_PER_ZONE, ROWS_PER_ZONE, zone_map_parameters
from lance_core.index.scalar.zone_map.build import FILE as ZONE_MAP_FILE
from lance_core.index.segment_files import SegmentFiles


def btree_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the number of pages, and the least and the greatest value as text."""
    with files.source("page_lookup.lance") as lookup:
        if not lookup.num_rows:
            return {}
        first, last = lookup.read(0, 1), lookup.read(lookup.num_rows - 1, lookup.num_rows)
        least, most = _shown(first.column("min")), _shown(last.column("max"))
        return {"min": least, "max": most, "num_pages": lookup.num_rows}


def bitmap_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the number of values of a bitmap or label list index."""
    with files.source("bitmap_page_lookup.lance") as file:
        return {"num_bitmaps": file.num_rows}


def ngram_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the number of trigrams."""
    with files.source("ngram_postings.lance") as file:
        return {"num_ngrams": file.num_rows}


def zone_map_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the number of zones and their size."""
    with files.source(ZONE_MAP_FILE) as file:
        num_zones = file.num_rows
    rows = zone_map_parameters(files)[ROWS_PER_ZONE]
    return {
        "num_zones": num_zones,
        "rows_per_zone": DEFAULT_ROWS_PER_ZONE if rows is None else rows,
    }


def bloom_filter_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the number of filters and the parameters from which their size follows."""
    with files.source(BLOOM_FILTER_FILE) as file:
        num_zones = file.num_rows
    parameters = bloom_filter_parameters(files)
    items, probability = parameters[NUM_ITEMS], parameters[PROBABILITY]
    return {
        "type": "BloomFilter",
        "num_blocks": num_zones,
        "number_of_items": DEFAULT_ITEMS if items is None else items,
        "probability": DEFAULT_PROBABILITY if probability is None else probability,
    }


def _shown(value: pa.Array) -> str:
    found = value[0].as_py()
    return "NULL" if found is None else str(found)
