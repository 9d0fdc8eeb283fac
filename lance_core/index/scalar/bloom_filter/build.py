"""Writing of Bloom filter indices: `bloomfilter.lance` has a row per zone.

All filters have the same size, which follows from the expected number of values and the accepted probability
of a wrong answer, not from the values.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import fixed_bits, offset_bits
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.index.build import BuiltSegment, IndexedRows, Parameters
from lance_core.index.progress import stage
from lance_core.index.row_sets import RowSet, TreeMap
from lance_core.index.scalar.parameters import positive_integer, refuse_unknown, stored_number
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.zones import NULL_ROWS, ZONE_FIELDS, ZoneRows, places_of, zones_of

FILE = "bloomfilter.lance"
NUM_ITEMS, PROBABILITY = "number_of_items", "probability"
"""Names of the parameters."""
ITEMS_KEY, PROBABILITY_KEY = "bloomfilter_item", "bloomfilter_probability"
"""Keys of the schema metadata with the values of the parameters."""
DEFAULT_ITEMS, DEFAULT_PROBABILITY = 8192, 0.00057
SCHEMA = pa.schema(
    [
        *ZONE_FIELDS,
        pa.field("has_null", pa.bool_(), nullable=False),
        pa.field("bloom_filter_data", pa.binary(), nullable=False),
    ]
)
_BLOCK_BYTES = 32
_MOST_BYTES = 1 << 27
_BITS_OF_BLOCK = 256
_WORDS = 8
_TERMS = 750


def build_bloom_filter(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the file of a Bloom filter index; see `lance_core.index.build.Builder`.

    The parameter `number_of_items` is the number of live rows of a zone, `probability` that of a wrong
    answer.
    """
    refuse_unknown(parameters, [NUM_ITEMS, PROBABILITY])
    num_items = positive_integer(parameters, NUM_ITEMS, DEFAULT_ITEMS)
    probability = _probability(parameters)
    num_blocks = filter_bytes(num_items, probability) // _BLOCK_BYTES
    null_rows = RowSet()
    with writer.create(FILE, SCHEMA) as file, stage(rows.observer, "scan", rows.num_rows) as advance:
        for zones in zones_of(rows, num_items):
            null_rows.add(zones.null_addresses)
            file.write(_described(zones, num_blocks))
            advance(len(zones.values))
        file.add_metadata({ITEMS_KEY: str(num_items), PROBABILITY_KEY: str(probability)})
        file.add_metadata({NULL_ROWS: str(file.add_buffer(null_rows.to_bytes(TreeMap())))})
    return BuiltSegment()


def bloom_filter_parameters(files: SegmentFiles) -> Parameters:
    """Return the parameters of an index; see `lance_core.index.build.IndexKind.parameters_of`."""
    with files.source(FILE) as file:
        text = file.metadata.get(PROBABILITY_KEY)
        try:
            probability = None if text is None else float(text)
        except ValueError:
            raise CorruptFileError("probability of a Bloom filter", file=file.name, found=text) from None
        return {NUM_ITEMS: stored_number(file, ITEMS_KEY), PROBABILITY: probability}


def filter_bytes(num_items: int, probability: float) -> int:
    """Return the size of a filter: the least power of two with at most this rate of wrong answers.

    Source: F. Putze, P. Sanders, J. Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", section 3.
    """
    size = _BLOCK_BYTES
    while size < _MOST_BYTES and _wrong_answers(num_items, size) > probability:
        size *= 2
    return size


def _wrong_answers(num_items: int, size: int) -> float:
    """Return the probability that a filter of `size` bytes finds a value that it does not have."""
    per_block = _BITS_OF_BLOCK * num_items / (8 * size)
    rate, log_weight = 0.0, -per_block
    for items in range(_TERMS):
        if items:
            log_weight += math.log(per_block / items)
        rate += math.exp(log_weight) * (1 - (1 - 1 / 32) ** items) ** _WORDS
    return rate


def _probability(parameters: Parameters) -> float:
    value = parameters.get(PROBABILITY)
    if value is None:
        return DEFAULT_PROBABILITY
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidInputError(PROBABILITY, expected="a number between 0 and 1", found=value)
    return float(value)


def _described(zones: ZoneRows, num_blocks: int) -> pa.RecordBatch:
    """Return the rows of the file for some zones."""
    values, span = zones.values, zones.span
    firsts = span.firsts
    validity, *buffers = values.buffers()
    bits = offset_bits(values.type)
    offsets, data = buffers if bits else (None, buffers[0])
    filters = [
        bytes(
            kernels.bloom_filter(
                offsets,
                data or b"",
                bits,
                fixed_bits(values.type) // 8,
                validity,
                0,
                values.offset + first,
                min(span.rows_per_zone, len(values) - first),
                num_blocks,
            )
        )
        for first in firsts.tolist()
    ]
    is_null = np.asarray(values.is_null()).astype(np.uint8)
    columns = [
        *places_of([span]),
        pa.array(np.maximum.reduceat(is_null, firsts).astype(bool)),
        pa.array(filters, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
