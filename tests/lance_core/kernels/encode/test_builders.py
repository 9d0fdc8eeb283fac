"""Joining slices of arrays and levels, compared with Arrow and numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.encodings.v2_1.encoders.shredding import LeafRows
from lance_core.file.buffered_rows import waiting_rows
from lance_core.kernels import CorruptData, OffsetOverflow

TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int64(),
    pa.float16(),
    pa.decimal128(20, 3),
    pa.binary(3),
    pa.string(),
    pa.large_binary(),
    pa.list_(pa.int32(), 3),
    pa.list_(pa.list_(pa.bool_(), 2), 2),
    pa.struct([("a", pa.int16()), ("b", pa.string())]),
]


def _value(kind: pa.DataType, number: int) -> object:
    if pa.types.is_fixed_size_list(kind):
        return [_value(kind.value_type, number + k) if k else None for k in range(kind.list_size)]
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type, number) for field in kind}
    if pa.types.is_boolean(kind):
        return number % 3 == 0
    if pa.types.is_string(kind):
        return "é" * (number % 5)
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return b"x" * (number % 11)
    if pa.types.is_fixed_size_binary(kind):
        return bytes([number % 256] * kind.byte_width)
    if pa.types.is_float16(kind):
        return np.float16(number)
    return number % 100


@settings(deadline=None)
@given(
    st.sampled_from(TYPES),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 150), st.booleans()), max_size=12),
)
def test_slices_are_joined(kind: pa.DataType, slices: list[tuple[int, int, bool]]) -> None:
    """From any offset on, with and without nulls, twice with the same builder."""
    waiting = waiting_rows(kind, 64)
    for _ in range(2):
        pieces = [pa.array([], kind)]
        for start, count, has_nulls in slices:
            numbers = range(start, start + 9 + count)
            values = [None if has_nulls and n % 4 == 1 else _value(kind, n) for n in numbers]
            pieces.append(pa.array(values, kind).slice(start, count))
            waiting.append(LeafRows(pieces[-1], count, count, None, None))
        expected = pa.concat_arrays(pieces)
        taken = waiting.take()
        if not len(expected):
            assert taken == []
            continue
        (rows,) = taken
        rows.values.validate(full=True)
        assert rows.values.equals(expected)
        assert (rows.num_rows, rows.rep, rows.def_) == (len(expected), None, None)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 70), st.booleans()), max_size=9))
def test_levels_are_joined(parts: list[tuple[int, bool]]) -> None:
    """Entries that came without levels have zeros."""
    builder = kernels.LevelBuilder(8)
    for _ in range(2):
        expected, at = [], 0
        for count, has_levels in parts:
            levels = np.arange(1, count + 1, dtype="<u2") if has_levels else np.zeros(count, "<u2")
            if has_levels:
                builder.append(at, count, levels)
            expected.append(levels)
            at += count
        block = builder.finish(at)
        if any(count and has_levels for count, has_levels in parts):
            assert block is not None
            assert np.frombuffer(memoryview(block), "<u2").tolist() == np.concatenate(expected).tolist()
        else:
            assert block is None or not any(memoryview(block))


OFFSETS = np.array([0, 1, 3], "<u4")


@pytest.mark.parametrize(
    "append",
    [
        lambda: kernels.ArrayBuilder(32, 0, 0).append(2, 1, None, bytes(8)),
        lambda: kernels.ArrayBuilder(1, 0, 0).append(9, 0, None, b"1"),
        lambda: kernels.ArrayBuilder(8, 0, 0).append(9, 0, b"1", bytes(9)),
        lambda: kernels.ArrayBuilder(8, 0, 0).append(1, 1 << 62, None, bytes(9)),
        lambda: kernels.ArrayBuilder(0, 32, 0).append(2, 0, None, OFFSETS, b"12"),
        lambda: kernels.ArrayBuilder(0, 32, 0).append(3, 0, None, OFFSETS, b"123"),
        lambda: kernels.ArrayBuilder(0, 32, 0).append(1, 0, None, OFFSETS[::-1].copy(), b"123"),
        lambda: kernels.ArrayBuilder(0, 33, 0),
        lambda: kernels.ArrayBuilder(12, 0, 0),
        lambda: kernels.LevelBuilder(0).append(0, 2, b"123"),
        lambda: kernels.LevelBuilder(0).append(1 << 62, 0, b""),
    ],
)
def test_what_is_not_there_is_refused(append: Callable[[], None]) -> None:
    with pytest.raises(CorruptData):
        append()


def test_entries_do_not_go_back() -> None:
    builder = kernels.LevelBuilder(0)
    builder.append(0, 2, bytes(4))
    with pytest.raises(CorruptData):
        builder.append(1, 2, bytes(4))


def test_offsets_of_32_bits_do_not_wrap() -> None:
    builder = kernels.ArrayBuilder(0, 32, 0)
    data = np.zeros((1 << 31) - 1, np.uint8)  # never touched: it takes no memory
    builder.append(1, 0, None, np.array([0, 1], "<u4"), data)
    with pytest.raises(OffsetOverflow):
        builder.append(1, 0, None, np.array([0, len(data)], "<u4"), data)
