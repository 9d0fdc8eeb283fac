"""Rows of packed structs and fixed-size lists against plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, values


def test_the_examples_of_the_format() -> None:
    first, second = kernels.split_rows(bytes.fromhex("01000000 02 03000000 04"), 2, [4, 1])
    assert (inputs.numbers(first, "<i4"), bytes(second)) == ([1, 3], b"\2\4")

    rows = [bytes.fromhex("01000000 02000000 7879"), b"", bytes.fromhex("03000000 00000000")]
    numbers, text = kernels.split_variable_rows(
        values.arrow_offsets(rows, 32), b"".join(rows), 3, 32, [(4, 0), (0, 32)]
    )
    assert inputs.numbers(numbers[0], "<i4") == [1, 0, 3]
    assert inputs.numbers(text[0], "<u4") == [0, 2, 2, 2]
    assert bytes(text[1]) == b"xy"


@settings(max_examples=draws(80), deadline=None)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_fixed_rows(widths: list[int], num_rows: int, rng: random.Random) -> None:
    rows = [[rng.randbytes(width) for width in widths] for _ in range(num_rows)]
    data = inputs.place(b"".join(b"".join(row) for row in rows), rng.randrange(8))
    columns = kernels.split_rows(data, num_rows, widths)
    assert [bytes(column) for column in columns] == [
        b"".join(row[k] for row in rows) for k in range(len(widths))
    ]


@settings(max_examples=draws(80), deadline=None)
@given(st.integers(1, 40), st.integers(0, 20), st.randoms(use_true_random=False))
def test_bitmaps_of_rows(bits_per_row: int, num_rows: int, rng: random.Random) -> None:
    rows = [[rng.random() < 0.5 for _ in range(bits_per_row)] for _ in range(num_rows)]
    data = inputs.place(b"".join(map(inputs.bitmap, rows)), rng.randrange(8))
    joined = kernels.join_row_bits(data, num_rows, bits_per_row)
    assert inputs.bits(joined, num_rows * bits_per_row) == inputs.joined(rows)


@settings(max_examples=draws(80), deadline=None)
@given(
    st.lists(st.sampled_from((1, 4, 7, -32, -64)), min_size=1, max_size=5),
    st.integers(0, 12),
    st.sampled_from((32, 64)),
    st.randoms(use_true_random=False),
)
def test_variable_rows(kinds: list[int], num_rows: int, offset_bits: int, rng: random.Random) -> None:
    """Positive kinds are widths, negative ones length bits; a row of no bytes is a null struct."""
    rows: list[list[bytes] | None] = [
        None if rng.random() < 0.3 else [rng.randbytes(k if k > 0 else rng.randrange(9)) for k in kinds]
        for _ in range(num_rows)
    ]
    packed = [
        b"".join(
            value if k > 0 else len(value).to_bytes(-k // 8, "little") + value
            for k, value in zip(kinds, row or [], strict=row is not None)
        )
        for row in rows
    ]
    columns = kernels.split_variable_rows(
        inputs.place(values.arrow_offsets(packed, offset_bits), rng.randrange(8)),
        inputs.place(b"".join(packed)),
        num_rows,
        offset_bits,
        [(max(k, 0), max(-k, 0)) for k in kinds],
    )
    for k, (kind, (first, second)) in enumerate(zip(kinds, columns, strict=True)):
        column = [row[k] if row is not None else bytes(max(kind, 0)) for row in rows]
        if kind > 0:
            assert (bytes(first), len(second)) == (b"".join(column), 0)
        else:
            assert (bytes(first), bytes(second)) == (values.arrow_offsets(column, -kind), b"".join(column))


def test_fixed_rows_that_lie() -> None:
    """T22, T24: more rows than bytes, also where rows times width overflow 64 bits."""
    for size, num_rows, widths in (
        (9, 2, [4, 1]),
        (0, 1, [1]),
        (8, 1 << 62, [4, 4]),
        (8, 1, [1 << 33]),
        (8, 1 << 60, [8]),
    ):
        with pytest.raises(CorruptData):
            kernels.split_rows(inputs.place(bytes(size)), num_rows, widths)
    for size, num_rows, bits in (
        (1, 2, 3),
        (1, 1, 9),
        (8, 1 << 61, 8),
        (8, 1, (1 << 64) - 1),
        (8, 2, (1 << 64) - 7),
    ):
        with pytest.raises(CorruptData):
            kernels.join_row_bits(inputs.place(bytes(size)), num_rows, bits)


@pytest.mark.timeout(20)
def test_rows_without_bits_take_no_time() -> None:
    """T22: a count that no byte backs is not walked through."""
    assert len(kernels.join_row_bits(b"", 1 << 60, 0)) == 0
    assert list(map(len, kernels.split_rows(b"", 1 << 60, []))) == []


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (b"\1\2\3", [(4, 0)]),
        (b"\1\2\3\4\5", [(4, 0)]),
        (b"\5\0\0\0ab", [(0, 32)]),
        (b"\5\0\0", [(0, 32)]),
        (b"\5\0\0\0ab", [(0, 32), (0, 32)]),
        (b"\xff" * 8 + b"ab", [(0, 64)]),
        (b"\1\0a", [(0, 16)]),
        (b"\1", []),
        (b"\1\2", [(1 << 40, 0)]),
    ],
)
def test_variable_rows_that_lie(row: bytes, fields: list[tuple[int, int]]) -> None:
    """T22: fields that leave their row, and rows with bytes behind the last field."""
    with pytest.raises(CorruptData):
        kernels.split_variable_rows(values.arrow_offsets([row], 32), inputs.place(row), 1, 32, fields)


def test_offsets_of_variable_rows_are_checked() -> None:
    """T22: rows that go backwards or leave the data."""
    for offsets in ([4, 0], [0, 9]):
        with pytest.raises(CorruptData):
            kernels.split_variable_rows(values.integers(offsets, 32), bytes(8), 1, 32, [(4, 0)])
    with pytest.raises(CorruptData):
        kernels.split_variable_rows(values.integers([0, 4], 32), bytes(8), (1 << 64) - 1, 32, [(4, 0)])
