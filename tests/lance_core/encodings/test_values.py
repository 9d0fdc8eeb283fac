"""Decoded values as Arrow arrays: sliced anywhere, refused where they do not fit the type."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.encodings.values import (
    DictionaryValues,
    FixedValues,
    ListValues,
    NoValues,
    PackedValues,
    Values,
    VariableValues,
)
from lance_core.kernels import CorruptData
from support.twins import inputs, values

COUNT = 40
RNG = random.Random(1)
NUMBERS = list(range(COUNT))
FLAGS = [RNG.random() < 0.5 for _ in range(2 * COUNT)]
TEXTS = [RNG.randbytes(RNG.randrange(4)) for _ in range(COUNT)]
INT32 = FixedValues(pa.py_buffer(np.array(NUMBERS, "<i4").tobytes()), 32)
BITS = FixedValues(pa.py_buffer(inputs.bitmap(FLAGS)), 1)
BYTES = FixedValues(pa.py_buffer(bytes(3 * flag for flag in FLAGS)), 8)
BINARY = VariableValues(pa.py_buffer(values.arrow_offsets(TEXTS, 32)), pa.py_buffer(b"".join(TEXTS)), 32)
PAIRS = ListValues(BITS, 2, pa.py_buffer(inputs.bitmap([not flag for flag in FLAGS])))
WORDS = pa.array(["a", "b"])
INDICES = FixedValues(pa.py_buffer(bytes(i % 2 for i in NUMBERS)), 8)

CASES: dict[str, tuple[Values, pa.DataType, list[object]]] = {
    "numbers": (INT32, pa.int32(), NUMBERS),
    "bits": (BITS, pa.bool_(), FLAGS[:COUNT]),
    "a byte per bool": (BYTES, pa.bool_(), FLAGS[:COUNT]),
    "binaries": (BINARY, pa.binary(), TEXTS),
    "lists of bits with nulls": (
        PAIRS,
        pa.list_(pa.bool_(), 2),
        [[None if flag else flag for flag in FLAGS[2 * i : 2 * i + 2]] for i in NUMBERS],
    ),
    "packed structs": (
        PackedValues([INT32, BINARY]),
        pa.struct([("a", pa.int32()), ("b", pa.binary())]),
        [{"a": a, "b": b} for a, b in zip(NUMBERS, TEXTS, strict=True)],
    ),
    "dictionary": (
        DictionaryValues(INDICES, WORDS),
        pa.dictionary(pa.int8(), pa.string()),
        [WORDS[i % 2].as_py() for i in NUMBERS],
    ),
    "nothing": (NoValues(), pa.int32(), [None] * COUNT),
    "empty structs": (NoValues(), pa.struct([]), [{}] * COUNT),
}


@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", CASES)
def test_slices_of_slices(name: str, data: st.DataObject) -> None:
    """Bitmaps start anywhere in a byte; a slice of a slice counts from its own start."""
    container, arrow_type, rows = CASES[name]
    start = data.draw(st.integers(0, COUNT))
    length = data.draw(st.integers(0, COUNT - start))
    inner = data.draw(st.integers(0, length))
    count = data.draw(st.integers(0, length - inner))
    array = container.slice(start, length).slice(inner, count).to_arrow(count, arrow_type, None)
    array.validate(full=True)
    assert array.type == arrow_type
    assert array.to_pylist() == rows[start + inner : start + inner + count]


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("nothing",)])
def test_validity_hides_values(name: str) -> None:
    container, arrow_type, rows = CASES[name]
    validity = pa.py_buffer(inputs.bitmap(FLAGS[:COUNT]))
    array = container.to_arrow(COUNT, arrow_type, validity)
    array.validate(full=True)
    assert array.to_pylist() == [
        row if valid else None for row, valid in zip(rows, FLAGS[:COUNT], strict=True)
    ]


@pytest.mark.parametrize(
    ("container", "arrow_type", "count"),
    [
        (INT32, pa.int64(), 2),
        (INT32, pa.int32(), COUNT + 1),
        (INT32, pa.string(), 2),
        (INT32, pa.dictionary(pa.int32(), pa.string()), 2),
        (BITS, pa.int8(), 2),
        (BITS, pa.bool_(), 2 * COUNT + 1),
        (BYTES, pa.bool_(), 2 * COUNT + 1),
        (BINARY, pa.large_binary(), 2),
        (BINARY, pa.int32(), 2),
        (PAIRS, pa.list_(pa.bool_(), 3), 2),
        (PAIRS, pa.list_(pa.bool_()), 2),
        (PAIRS, pa.list_(pa.int8(), 2), 2),
        (PackedValues([INT32]), pa.struct([("a", pa.int32()), ("b", pa.int32())]), 2),
        (PackedValues([INT32]), pa.struct([("a", pa.int16())]), 2),
        (PackedValues([INT32]), pa.int32(), 2),
    ],
)
def test_values_that_do_not_fit_the_type(container: Values, arrow_type: pa.DataType, count: int) -> None:
    """T22: a width, a shape or a number of values that the column does not have."""
    with pytest.raises(CorruptData):
        container.to_arrow(count, arrow_type, None)
