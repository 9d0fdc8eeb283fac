"""Sizes of arrays whose few bytes stand for many."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flight_server.limits.decoded_size import decoded_bytes
from support.runs.each_case import each_case
from support.servers.served import trips_table

TEXT = "x" * 1000


def no_values(length: int) -> pa.Array:
    """Nulls without memory, as a message can announce them."""
    return pa.Array.from_buffers(pa.null(), length, [None])


def views(length: int, array_type: pa.DataType) -> pa.Array:
    """Return an array of equal views."""
    _, view, data = pa.array([TEXT], pa.string_view()).buffers()
    return pa.Array.from_buffers(array_type, length, [None, pa.py_buffer(view.to_pybytes() * length), data])


@each_case(
    ("array", "least"),
    [
        (no_values(1 << 40), 1 << 40),
        (pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int8()), [TEXT]), 500_000),
        (pa.DictionaryArray.from_arrays(pa.array([0, None] * 500, pa.int8()), [1, 2]), 8000),
        (pa.DictionaryArray.from_arrays([0] * 500, pa.array([TEXT], pa.string_view())), 500_000),
        (views(500, pa.string_view()), 500_000),
        (views(500, pa.binary_view()), 500_000),
        (pa.FixedSizeListArray.from_arrays(no_values(1 << 40), 1 << 20), 1 << 40),
        (pa.ListArray.from_arrays([0, 1 << 30], no_values(1 << 30)), 1 << 30),
        (pa.array([b""] * 100, pa.binary(0)), 100),
        (pa.array([{}] * 100, pa.struct([])), 100),
        (pa.array([{"a": TEXT}] * 100), 100_000),
        (pa.array([[("k", TEXT)]] * 100, pa.map_(pa.string(), pa.string())), 100_000),
        (pa.array([], pa.string_view()), 0),
        (pa.array([], pa.list_(pa.string())), 0),
    ],
)
def test_what_few_bytes_stand_for(array: pa.Array, least: int) -> None:
    """T16"""
    assert decoded_bytes(array) >= least


@given(st.integers(0, 200), st.integers(0, 200))
def test_slices_count_what_they_show(start: int, length: int) -> None:
    views = pa.array([str(row) * 20 for row in range(200)], pa.string_view())
    table = trips_table(200).drop_columns(["city"]).append_column("view", views)
    for whole in table.combine_chunks().to_batches()[0].columns:
        part = whole.slice(start, length)
        again = pa.array(part.to_pylist(), part.type)
        assert decoded_bytes(part) == pytest.approx(decoded_bytes(again), abs=64 + 4 * len(part))


def test_plain_rows_count_as_their_buffers() -> None:
    for column in trips_table(200).drop_columns(["city"]).combine_chunks().to_batches()[0].columns:
        assert column.nbytes <= decoded_bytes(column) <= column.nbytes + 3 * 200 + 16
