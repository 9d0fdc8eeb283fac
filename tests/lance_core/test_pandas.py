"""Reads, writes and commits do without pandas.

Arrow imports pandas for many small steps if it is installed, which takes longer than the first read of a
process.
`lance_core.schema.arrow_values` has these steps without it.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.schema.arrow_values import array_of, array_of_scalars, array_of_texts, numbers_of, scalar_of
from support.runs.each_case import each_case

ROWS = 3000
INDICES = {
    "id": "BTREE",
    "name": "BTREE",
    "share": "BTREE",
    "day": "BTREE",
    "price": "BTREE",
    "kind": "BITMAP",
    "zone": "ZONEMAP",
    "bloom": "BLOOMFILTER",
    "tags": "LABEL_LIST",
    "grams": "NGRAM",
    "text": "INVERTED",
}

STEPS = """
import sys
from contextlib import contextmanager
from datetime import timedelta

import lance_core

plain, indexed, written = sys.argv[1:]
FILTERS = (
    "id = 77", "id > 77 AND id < 200", "id != 3", "id IN (3, 5)", "kind = 7", "kind IN (3, 5)", "zone < 0.1",
    "bloom = 'b77'", "bloom IN ('b1', 'b2')", "text = 'word3 more'", "text LIKE 'word3%'", "text IS NOT NULL",
    "array_has(tags, 't3')", "array_has_any(tags, ['t3', 't4'])", "contains(grams, 'some7')",
    "flag", "NOT flag", "gaps > 5.5 OR id < 3", "gaps IS NULL", "id + 1 = 9",
    "moment > timestamp '1970-01-01 00:00:00.001'", "day = date '1970-02-01'", "price = 5.5", "price < 5",
    "share > 0.5", "share IN (0.5, 0.25)", "id % 10 = 3", "CASE WHEN flag THEN id ELSE 0 END = 6",
    "name LIKE 'n7%'", "name IN ('n1', 'n2', 'n3', 'n4', 'n5')", "id IN (1, 2, 3, 4, 5)", "word = 'w3'",
    "cast(id AS string) = '7'",
)


@contextmanager
def step(name):
    yield
    assert "pandas" not in sys.modules, name


for path in (plain, indexed):
    with step("open"):
        dataset = lance_core.dataset(path)
        assert dataset.count_rows() == len(dataset.to_table())
    with step("scan"):
        dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True, limit=5, offset=100)
        dataset.to_table(columns={"next": "id + 1"}, limit=5)
    with step("take"):
        assert dataset.take([5, 9, 7, 5], columns=["id", "text"])["id"].to_pylist() == [5, 9, 7, 5]
    with step("sorted"):
        dataset.to_table(columns=["id"], order_by=["text"], limit=5)
    for condition in FILTERS:
        with step(condition):
            dataset.to_table(columns=["id"], filter=condition)
            dataset.count_rows(condition)
    query = [0.5] * 8
    with step("nearest"):
        for more in ({}, {"refine_factor": 2}):
            dataset.to_table(nearest={"column": "vector", "q": query, "k": 3, **more})
        dataset.to_table(nearest={"column": "vector", "q": query, "k": 3}, filter="id < 500", prefilter=True)

with step("full text"):
    assert dataset.to_table(columns=["id"], full_text_query="word3").num_rows
with step("write"):
    rows = dataset.to_table()
    dataset = lance_core.write_dataset(rows, written)
    dataset = lance_core.write_dataset(rows, written, mode="append")
with step("delete"):
    dataset.delete("id < 5")
with step("read beside deletions"):
    dataset.to_table()
    dataset.to_table(filter="id = 7")
    dataset.take([5])
with step("update"):
    dataset.update({"kind": "kind + 1"}, where="id = 9")
with step("versions"):
    assert len(dataset.versions()) == 4
"""


def test_pandas_is_not_imported(tmp_path: Path) -> None:
    numbers = np.arange(ROWS)
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "id": numbers,
            "kind": numbers % 50,
            "zone": random.random(ROWS),
            "bloom": [f"b{k % 500}" for k in range(ROWS)],
            "tags": [[f"t{k % 5}", f"t{k % 7}"] for k in range(ROWS)],
            "grams": [f"some{k % 100}thing" for k in range(ROWS)],
            "text": [f"word{k % 100} more" for k in range(ROWS)],
            "flag": numbers % 2 == 0,
            "gaps": [None if k % 3 == 0 else float(k) for k in range(ROWS)],
            "moment": pa.array(numbers).cast(pa.timestamp("us")),
            "day": pa.array(numbers.astype(np.int32)).cast(pa.date32()),
            "price": pa.array(numbers).cast(pa.decimal128(22, 2)),
            "share": random.random(ROWS, np.float32),
            "name": [f"n{k}" for k in range(ROWS)],
            "word": pa.array([f"w{k % 5}" for k in range(ROWS)]).dictionary_encode(),
            "nothing": pa.nulls(ROWS),
            "vector": pa.FixedSizeListArray.from_arrays(random.random(ROWS * 8, np.float32), 8),
        }
    )
    paths = [str(tmp_path / name) for name in ("plain", "indexed", "written")]
    lance_core.write_dataset(table, paths[0], data_storage_version="2.0")
    dataset = lance_core.write_dataset(table, paths[1])
    for column, kind in INDICES.items():
        dataset.create_scalar_index(column, kind)
    dataset.create_index("vector", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    done = subprocess.run([sys.executable, "-c", STEPS, *paths], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@each_case(
    "dtype", [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.int64, np.float16, np.float32, np.float64]
)
def test_arrays_and_numbers(dtype: type) -> None:
    values: np.ndarray = np.array([0, 1, 1, 0, 1, 3, 0, 1, 0, 1, 1], dtype)
    for given in (values, values[::2], values[:0]):
        array = array_of(given)
        array.validate(full=True)
        assert array.equals(pa.array(given))
        assert np.array_equal(numbers_of(array), given)
        assert numbers_of(array).dtype == given.dtype
    array = array_of(values)
    for start, length in ((3, 5), (8, 3), (9, 2), (11, 0)):
        assert np.array_equal(numbers_of(array.slice(start, length)), values[start : start + length])
    assert np.array_equal(numbers_of(pa.chunked_array([array, array])), np.concatenate([values, values]))
    assert np.array_equal(numbers_of(pa.chunked_array([], array.type)), values[:0])
    valid = values == values[1]
    assert array_of(values, valid).equals(pa.array(values, mask=~valid))
    with pytest.raises(pa.ArrowInvalid, match="of 11 numbers are null"):
        numbers_of(array_of(values, valid))


def test_numbers_share_memory_and_are_read_only() -> None:
    values = np.arange(5)
    numbers = numbers_of(array_of(values))
    assert np.shares_memory(numbers, values)
    assert not numbers.flags.writeable


@pytest.mark.filterwarnings("ignore:Exporting an unversioned")  # NumPy asks a second time, in the old way
def test_arrays_of_other_types_are_refused() -> None:
    for array in (pa.array(["a"]), pa.array([1]).cast(pa.timestamp("s")), pa.array([[1]])):
        with pytest.raises(pa.ArrowTypeError):
            numbers_of(array)


@each_case(
    ("value", "data_type"),
    [
        (None, pa.int64()),
        (None, None),
        (None, pa.struct([])),
        (None, pa.dictionary(pa.int8(), pa.string())),
        (None, pa.timestamp("us", "UTC")),
        (True, None),
        (False, pa.bool_()),
        (3, None),
        (-1, pa.int8()),
        (2**63, pa.uint64()),
        (3, pa.float64()),
        (1.5, None),
        (1.1, pa.float32()),
        (1e300, pa.float32()),
        (1.1, pa.float16()),
        ("", None),
        ("ä\N{SNOWMAN}", pa.large_string()),
        ("x", pa.string_view()),
        (b"\x00\xff", None),
        (b"x", pa.large_binary()),
        (np.float64(1.5), None),
        (Decimal("1.20"), None),
        (datetime.date(2020, 1, 2), None),
        ([1, 2], None),
    ],
)
def test_scalars(value: object, data_type: pa.DataType | None) -> None:
    scalar, expected = scalar_of(value, data_type), pa.scalar(value, data_type)
    assert scalar.type == expected.type
    assert scalar.equals(expected)


def test_scalars_that_do_not_fit_are_refused() -> None:
    for value, data_type in ((300, pa.int8()), (-1, pa.uint8()), ("x", pa.int64()), (True, pa.int64())):
        with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)):
            scalar_of(value, data_type)
    with pytest.raises(OverflowError):
        scalar_of(2**64)


@each_case(
    ("values", "data_type"),
    [
        ([1, 2], pa.int16()),
        ([2**64 - 1], pa.uint64()),
        ([0.5, float("inf")], pa.float64()),
        ([0.1, 1.5], pa.float32()),
        ([0.1, 1.5], pa.float16()),
        (["a", "", "ä"], pa.string()),
        (["a"], pa.large_string()),
        ([b"a"], pa.binary()),
        ([Decimal("1.20")], pa.decimal128(10, 2)),
        ([], pa.int64()),
        ([], pa.string()),
    ],
)
def test_arrays_of_scalars(values: list[object], data_type: pa.DataType) -> None:
    array = array_of_scalars([pa.scalar(value, data_type) for value in values], data_type)
    array.validate(full=True)
    assert array.equals(pa.array(values, data_type))


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("texts", [[], ["", "a", "", "\N{SNOWMAN}b"]])
def test_arrays_of_texts(texts: list[str], data_type: pa.DataType) -> None:
    array = array_of_texts(texts, data_type)
    array.validate(full=True)
    assert array.equals(pa.array(texts, data_type))
