"""Settings that make Spark quick and quiet in tests, and columns of every type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests end before the slower compiler and the parallel collector pay off, and start faster without."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "Europe/Lisbon",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine starts workers slowly
}

_MOMENTS = [dt.datetime(2024, 3, 31, 1, 30, 5), None, dt.datetime(1582, 10, 4), dt.datetime(9999, 12, 31)]
_FLOATS = [1.5, None, float("nan"), -0.0, float("inf"), -2.25]
_WORDS = ["", None, "żółw", "a", "a"]
_DAYS = [dt.date(1, 1, 1), None, dt.date(2024, 2, 29), dt.date(9999, 12, 31)]


def _integers(kind: pa.DataType) -> pa.Array:
    limits = np.iinfo(kind.to_pandas_dtype())
    return pa.array([int(limits.min), None, 1, int(limits.max)], kind)


def _structs() -> pa.Array:
    kind = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.large_string())]))])
    return pa.array(
        [{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}, {"a": 2, "b": {"c": None}}], kind
    )


def _arrays() -> dict[str, pa.Array]:
    integers = (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64)
    arrays: dict[str, Any] = {f"{make()}": _integers(make()) for make in integers}
    arrays["null"] = pa.nulls(3)
    arrays["bool"] = pa.array([True, None, False])
    arrays["float16"] = pa.array(np.array([1.5, np.nan, -0.0, 65504], np.float16))
    arrays["float32"] = pa.array(_FLOATS, pa.float32())
    arrays["float64"] = pa.array(_FLOATS, pa.float64())
    for kind in (pa.string(), pa.large_string()):
        arrays[f"{kind}"] = pa.array(_WORDS, kind)
    for kind in (pa.binary(), pa.large_binary()):
        arrays[f"{kind}"] = pa.array([b"", None, b"\x00\xff", b"abc"], kind)
    arrays["fixed_size_binary"] = pa.array([b"ab", None, b"\x00\xff"], pa.binary(2))
    arrays["decimal"] = pa.array([Decimal("-1.50"), None, Decimal("99999999.99")], pa.decimal128(10, 2))
    arrays["decimal38"] = pa.array([Decimal(10**37), None, Decimal(-1)], pa.decimal128(38, 0))
    arrays["decimal256"] = pa.array([Decimal("1.5"), None], pa.decimal256(12, 1))
    arrays["date32"] = pa.array(_DAYS, pa.date32())
    arrays["date64"] = pa.array(_DAYS, pa.date64())
    for unit in ("s", "ms", "us"):
        arrays[f"timestamp_{unit}"] = pa.array(_MOMENTS, pa.timestamp(unit))
        arrays[f"timestamp_{unit}_utc"] = pa.array(_MOMENTS, pa.timestamp(unit, "UTC"))
    arrays["timestamp_ns"] = pa.array([0, None, 1_700_000_000_000_001_000], pa.timestamp("ns"))
    arrays["timestamp_zone"] = pa.array([0, None, 1_711_848_600_000_001], pa.timestamp("us", "Asia/Tokyo"))
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us")):
        arrays[f"time_{kind.unit}"] = pa.array([dt.time(0), None, dt.time(23, 59, 59)], kind)
    arrays["time_ns"] = pa.array([0, None, 86_399_999_999_000], pa.time64("ns"))
    for unit in ("s", "ms", "us"):
        arrays[f"duration_{unit}"] = pa.array([0, None, -90_000, 10**6], pa.duration(unit))
    arrays["dictionary"] = pa.array(_WORDS).dictionary_encode()
    arrays["list"] = pa.array([[1, None], None, [], [3]], pa.list_(pa.int32()))
    arrays["large_list"] = pa.array([["a", None], None, [], ["b"]], pa.large_list(pa.large_string()))
    arrays["vector"] = pa.array([[1, 2], None, [3, float("nan")]], pa.list_(pa.float32(), 2))
    arrays["list_of_lists"] = pa.array([[[1], None, []], None, [], [[2, 3]]], pa.list_(pa.list_(pa.uint8())))
    arrays["struct"] = _structs()
    arrays["list_of_structs"] = pa.ListArray.from_arrays([0, 2, 2, 4], _structs())
    arrays["map"] = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.uint32()))
    return arrays


ARRAYS = _arrays()
"""Columns of every type that Lance and Spark can hold both, with nulls and limits, by name."""
