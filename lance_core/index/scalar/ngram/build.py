"""Writing of n-gram indices: `ngram_postings.lance` has a row per trigram, with the set of its row keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.values import offset_bits
from lance_core.index.build import ROW_KEY, VALUE, BuiltSegment, IndexedRows, Parameters
from lance_core.index.folding import folded
from lance_core.index.progress import stage
from lance_core.index.row_sets import Map64
from lance_core.index.scalar.parameters import refuse_unknown
from lance_core.index.segment_writer import SegmentWriter
from lance_core.index.sets_by_value import SetsByValue

FILE = "ngram_postings.lance"
NULL_TOKEN = 0
"""Token of the rows without a text."""
_TOKEN_TYPE = pa.uint32()
_SCHEMA = pa.schema(
    [
        pa.field("tokens", _TOKEN_TYPE),
        pa.field("posting_list", pa.binary(), False, metadata={"lance-encoding:compression": "none"}),
    ]
)


def build_ngram(rows: IndexedRows, parameters: Parameters, writer: SegmentWriter) -> BuiltSegment:
    """Write the file of an n-gram index; see `lance_core.index.build.Builder`. It has no parameters."""
    refuse_unknown(parameters)
    with SetsByValue(_TOKEN_TYPE, Map64()) as sets:
        with stage(rows.observer, "tokenize", rows.num_rows) as advance:
            for batch in rows.scan():
                for pairs in _tokens(batch):
                    sets.add(pairs)
                advance(batch.num_rows)
        with stage(rows.observer, "write"):
            writer.write(FILE, _SCHEMA, sets.batches(_SCHEMA, NULL_TOKEN))
    return BuiltSegment()


def _tokens(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the trigrams of texts, each with the row key of its text. The trigram of null is null."""
    texts, rows = batch.column(VALUE), np.asarray(batch.column(ROW_KEY))
    if texts.null_count:
        is_null = texts.is_null()
        null_rows = rows[np.asarray(is_null)]
        nulls = [pa.nulls(len(null_rows), _TOKEN_TYPE), pa.array(null_rows)]
        yield pa.RecordBatch.from_arrays(nulls, names=[VALUE, ROW_KEY])
        texts, rows = texts.drop_null(), rows[~np.asarray(is_null)]
    texts = folded(texts)
    bits = offset_bits(texts.type)
    offsets = texts.buffers()[1].slice(texts.offset * bits // 8) if len(texts) else bytes(bits // 8)
    tokens, places = kernels.find_trigrams(offsets, texts.buffers()[2] or b"", len(texts), bits)
    found = [
        pa.Array.from_buffers(_TOKEN_TYPE, len(tokens) // 4, [None, pa.py_buffer(tokens)], 0),
        pa.array(rows[np.frombuffer(memoryview(places), np.uint32)]),
    ]
    yield pa.RecordBatch.from_arrays(found, names=[VALUE, ROW_KEY])
