"""Sizes of arrays, counted from their offsets."""

import numpy as np
import pyarrow as pa

from lance_core.scan.read.value_sizes import bits_before, value_bits
from support.runs.each_case import each_case

NUM_ROWS = 1000
ROWS = range(NUM_ROWS)
ARRAYS = {
    "int": pa.array(ROWS),
    "bool": pa.array([k % 2 == 0 for k in ROWS]),
    "decimal": pa.nulls(NUM_ROWS, pa.decimal128(10, 2)),
    "timestamp": pa.array(ROWS, pa.timestamp("us")),
    "null": pa.nulls(NUM_ROWS),
    "fixed binary": pa.array([b"abc"] * NUM_ROWS, pa.binary(3)),
    "uuid": pa.array([b"0" * 16] * NUM_ROWS, pa.binary(16)).view(pa.uuid()),
    "text": pa.array(["x" * (k % 50) for k in ROWS]),
    "large text": pa.array(["x" * (k % 50) for k in ROWS], pa.large_string()),
    "dictionary": pa.array([f"kind {k % 7}" for k in ROWS]).dictionary_encode(),
    "list of text": pa.array([["x" * j for j in range(k % 5)] for k in ROWS]),
    "large list": pa.array([list(range(k % 5)) for k in ROWS], pa.large_list(pa.int16())),
    "vector": pa.array([[k, k, k] for k in ROWS], pa.list_(pa.int64(), 3)),
    "vector of text": pa.array([["x" * k] * 3 for k in ROWS], pa.list_(pa.string(), 3)),
    "struct": pa.array([{"a": k, "b": "x" * k} for k in ROWS]),
    "map": pa.array([[("k" * k, k)] for k in ROWS], pa.map_(pa.string(), pa.int32())),
}


@each_case("kind", ARRAYS)
@each_case(("start", "length"), [(0, NUM_ROWS), (100, 333), (999, 1), (500, 0)])
def test_sizes_are_those_of_arrow_but_for_validity(kind, start, length):
    array = ARRAYS[kind]
    (found,) = np.diff(bits_before(array, np.array([start, start + length])))
    (sliced,) = np.diff(bits_before(array.slice(start, length), np.array([0, length])))
    assert found == sliced
    # A bit of validity for each value of each level, and the end of the last offset.
    slack = 16 + (0 if length == 0 else array.slice(start, length).nbytes // 4 + length)
    expected = array.slice(start, length).nbytes
    if kind == "dictionary":
        expected -= array.dictionary.nbytes
    assert abs(found // 8 - expected) <= slack


def test_values_of_even_size_are_told_apart():
    even = [kind for kind, array in ARRAYS.items() if value_bits(array.type) is not None]
    assert even == ["int", "bool", "decimal", "timestamp", "null", "fixed binary", "uuid", "vector"]
    assert value_bits(pa.struct([("a", pa.int32()), ("b", pa.bool_())])) == 32 + 1 + 1 + 1
