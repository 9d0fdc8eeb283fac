"""Lists of types that several tests go through."""

from __future__ import annotations

import pyarrow as pa

ORDERED = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(20, 3),
    pa.decimal256(60, 5),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.duration("ms"),
    pa.binary(5),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
)
"""Every type that has bounds."""
