"""Values at the set bits of bitmaps, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.kernels import CorruptData, kept_bits, kept_values
from lance_core.scan.read import live_rows
from lance_core.scan.read.row_selection import keep_rows

SHARES = st.sampled_from([0.0, 0.01, 0.1, 0.15, 0.5, 0.99, 1.0])
"""Shares of set bits: none, words of few and of many, and all."""


@given(
    seed=st.integers(0, 2**32),
    num_values=st.integers(0, 700),
    width=st.sampled_from([1, 2, 3, 4, 8, 16]),
    start=st.integers(0, 80),
    share=SHARES,
)
def test_values_are_those_of_numpy(seed: int, num_values: int, width: int, start: int, share: float) -> None:
    """T23: values of any width, sparse and dense words, any first bit, and a last word that is not full."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 256, (num_values, width), np.uint8)
    mask = random.random(start + num_values) < share
    bits = np.packbits(mask, bitorder="little").tobytes()
    kept = np.frombuffer(kept_values(values.tobytes(), width, bits, start, num_values), np.uint8)
    assert kept.tobytes() == values[mask[start:]].tobytes()


@given(
    seed=st.integers(0, 2**32),
    num_bits=st.integers(0, 700),
    first=st.integers(0, 80),
    start=st.integers(0, 80),
    share=SHARES,
)
def test_bits_are_those_of_numpy(seed: int, num_bits: int, first: int, start: int, share: float) -> None:
    """T23: both bitmaps begin at any bit."""
    random = np.random.default_rng(seed)
    bits, mask = random.random(first + num_bits) < 0.5, random.random(start + num_bits) < share
    kept = kept_bits(
        np.packbits(bits, bitorder="little").tobytes(),
        first,
        np.packbits(mask, bitorder="little").tobytes(),
        start,
        num_bits,
    )
    expected = bits[first:][mask[start:]]
    found = np.unpackbits(np.frombuffer(kept, np.uint8), bitorder="little")[: len(expected)]
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(("start", "count"), [(0, 17), (16, 1), (17, 0), (1, 2**64 - 1), (2**64 - 1, 1)])
def test_bits_beyond_a_bitmap_are_refused(start: int, count: int) -> None:
    """T22: no number leads behind the bytes of the values, of the bits or of the mask."""
    with pytest.raises(CorruptData, match="of a bitmap of 2 bytes"):
        kept_values(bytes(8), 1, b"\xff\xff", start, count)
    for first, begin in ((0, start), (start, 0)):
        with pytest.raises(CorruptData, match="of a bitmap of 2 bytes"):
            kept_bits(b"\xff\xff", first, b"\xff\xff", begin, count)
    with pytest.raises(CorruptData, match="7 bytes for 4 values of 2 bytes"):
        kept_values(bytes(7), 2, b"\xff", 0, 4)
    with pytest.raises(CorruptData, match="values of 0 bytes"):
        kept_values(b"", 0, b"\xff", 0, 1)


TYPES = [pa.int8(), pa.float16(), pa.int32(), pa.timestamp("us"), pa.bool_(), pa.string()]


@given(
    seed=st.integers(0, 2**32),
    lengths=st.lists(st.integers(0, 150), min_size=1, max_size=4),
    data_type=st.sampled_from(TYPES),
    share=SHARES,
    has_nulls=st.booleans(),
    offset=st.integers(0, 70),
)
def test_rows_of_arrays_are_those_of_arrow(
    seed: int, lengths: list[int], data_type: pa.DataType, share: float, has_nulls: bool, offset: int
) -> None:
    """T23: values with and without nulls, slices, several arrays, and a type that no kernel takes."""
    random = np.random.default_rng(seed)
    numbers = pa.array(random.integers(0, 2, offset + sum(lengths)))
    between = {pa.float16(): pa.float32()}.get(data_type, pa.int64())
    whole = numbers.cast(between).cast(data_type)
    if has_nulls:
        nulls = pa.array(random.random(len(whole)) < 0.3)
        whole = pc.if_else(nulls, pa.scalar(None, data_type), whole)
    values = whole.slice(offset)
    passes = random.random(offset + len(values)) < share
    mask = pa.array(passes).slice(offset)
    starts = np.cumsum([0, *lengths]).tolist()
    arrays = [values.slice(start, length) for start, length in zip(starts, lengths, strict=False)]
    kept = keep_rows(arrays, mask)
    for array in kept:
        array.validate(full=True)
    assert pa.chunked_array(kept, data_type).to_pylist() == values.filter(mask).to_pylist()
    rows = np.arange(len(values))
    assert live_rows.kept_rows(rows, mask).tolist() == np.flatnonzero(passes[offset:]).tolist()
