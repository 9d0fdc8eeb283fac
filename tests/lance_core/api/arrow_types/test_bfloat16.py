"""Values, arrays and pandas columns of bfloat16, compared with the reference and with `ml_dtypes`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance.arrow as reference
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.arrow import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array, cast
from lance_core.api.arrow_types.bfloat16 import PandasBFloat16Array, PandasBFloat16Type
from lance_core.errors import InvalidInputError
from support.oracles.own_types import own_types_registered
from support.runs.each_case import each_case

NUMBERS = [1.1, 3.4, 1.124565, -0.0, 1e38, 1e39, -1e-30, -1e-40, 3.3e38, 123456, float("nan"), float("-inf")]
TIES = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-30, 1 + 2**-8 + 2**-20, -(1 + 2**-8)]


@pytest.fixture
def own_types() -> Iterator[None]:
    yield from own_types_registered()


def words(array: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = array.storage.to_pylist()
    return found


@each_case("number", NUMBERS + TIES)
def test_values_are_those_of_the_reference(number: float) -> None:
    theirs, ours = reference.BFloat16(number), BFloat16(number)
    assert str(ours) == repr(ours) == str(theirs)
    assert np.array_equal(ours.as_float(), theirs.as_float(), equal_nan=True)
    assert np.array_equal(float(ours), theirs.as_float(), equal_nan=True)


def test_values_are_compared() -> None:
    low, high, none = BFloat16(1.0), BFloat16(1.1), BFloat16(float("nan"))
    assert low < high
    assert high > low
    assert low <= low
    assert low >= low
    assert [high < low, high <= low, low > high, low >= high] == [False] * 4
    assert low == BFloat16(1.001)
    assert low != high
    assert none != none
    assert not none < low
    assert low != 1.0
    assert len({low, BFloat16(1), high}) == 2
    with pytest.raises(TypeError):
        assert low < 2.0  # type: ignore[operator]
    assert pickle.loads(pickle.dumps(high)) == high


def test_values_of_bytes() -> None:
    assert BFloat16.from_bytes(b"\xc0\x3f") == BFloat16(1.5)
    with pytest.raises(InvalidInputError, match="expected 2 bytes, got 3"):
        BFloat16.from_bytes(b"abc")


def test_arrays_are_those_of_the_reference() -> None:
    values = [*NUMBERS, None, *TIES]
    theirs, ours = reference.bfloat16_array(values), bfloat16_array(values)
    assert isinstance(ours, BFloat16Array)
    assert words(ours) == words(theirs)
    assert str(ours) == str(theirs)
    assert repr(ours).partition("0x")[0] == repr(theirs).partition("0x")[0]
    assert [str(value) for value in ours] == [str(value) for value in theirs]
    many = [float(number) for number in range(50)]
    assert str(bfloat16_array(many)) == str(reference.bfloat16_array(many))
    assert str(bfloat16_array([])) == str(reference.bfloat16_array([]))


def test_every_value_is_rounded_to_the_nearest() -> None:
    rng = np.random.default_rng(1)
    floats = rng.integers(0, 2**32, 50_000, dtype=np.uint32).view(np.float32)
    floats = floats[np.isfinite(floats)]
    theirs = reference.bfloat16_array(floats.tolist())
    assert words(bfloat16_array(floats)) == words(theirs)  # type: ignore[arg-type]


def test_values_of_arrays() -> None:
    array = bfloat16_array([1.5, None, BFloat16(2), 3])
    assert array.to_pylist() == [BFloat16(1.5), None, BFloat16(2), BFloat16(3)]
    assert array[0] == BFloat16(1.5) == array[0].as_py()
    assert array[0] == array[0]
    assert array[0] == np.float32(1.5)
    assert array[0] != array[1]
    assert array[1] != np.float32(0)
    assert array[1] == array[1]
    assert array[0] != 1.5
    assert hash(array[0]) == hash(BFloat16(1.5))
    assert array.slice(2).null_count == 0
    with pytest.raises(TypeError, match="takes numbers and None"):
        bfloat16_array(["1"])  # type: ignore[list-item]


@pytest.mark.parametrize("width", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_casts(width: pa.DataType) -> None:
    """The reference casts no nulls, and all rows of an array that is sliced."""
    floats = pa.array(np.array([9, 1.5, 2, -3, 0.25], width.to_pandas_dtype()), mask=np.arange(5) == 3)
    for target in ("bfloat16", "bf16", BFloat16Type(), reference.BFloat16Type()):
        halves = cast(floats, target)
        assert isinstance(halves, BFloat16Array)
        assert halves.to_pylist() == [BFloat16(9), BFloat16(1.5), BFloat16(2), None, BFloat16(0.25)]
        assert cast(halves.slice(1), width).equals(floats.slice(1))
    assert cast(halves, str(width).replace("halffloat", "float16")).equals(floats)
    theirs = reference.bfloat16_array([1.5, None])
    assert cast(theirs, width).to_pylist() == [1.5, None]
    assert cast(pa.chunked_array([floats, floats]), "bf16").num_chunks == 2


def test_casts_of_lists() -> None:
    pairs = pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.float32(), 2))
    target = pa.list_(BFloat16Type(), 2)
    halves = cast(pairs.slice(1), target)
    assert halves.type == target
    assert halves.to_pylist() == [None, [BFloat16(3), BFloat16(4)], [BFloat16(5), None]]
    assert cast(halves, pairs.type).equals(pairs.slice(1))
    assert cast(pairs, pa.list_(pa.float16(), 2)).to_pylist() == pairs.to_pylist()
    assert cast(pa.array([1, 2]), "int8").equals(pa.array([1, 2], pa.int8()))


@pytest.mark.parametrize(
    ("array", "target"),
    [
        (pa.array([1]), "bf16"),
        (bfloat16_array([1]), pa.int32()),
        (pa.array([[1.0]], pa.list_(pa.float32(), 1)), pa.list_(BFloat16Type(), 2)),
        (pa.array([1.5]), "int32"),
        (pa.array([1.5]), "integer"),
    ],
)
def test_casts_that_are_refused(array: pa.Array, target: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # Arrow's own, or InvalidInputError
        cast(array, target)


def test_what_float16_cannot_hold_becomes_infinite() -> None:
    assert cast(bfloat16_array([1e30]), pa.float16()).to_pylist() == [float("inf")]


def columns_of(array: BFloat16Array) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(array, 2)
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(array.type, [2]), vectors)
    return pa.table({"value": array.slice(0, len(vectors)), "vector": vectors, "tensor": tensors})


@pytest.mark.usefixtures("own_types")
def test_columns_of_datasets(tmp_path: Path) -> None:
    table = columns_of(bfloat16_array([1.5, -2, 3.25, 1e30]))
    dataset = lance_core.write_dataset(table, tmp_path / "ours")
    assert dataset.schema == table.schema
    assert dataset.to_table() == table == dataset.take([0, 1])
    assert isinstance(dataset.to_table()["value"].chunk(0), BFloat16Array)
    lance.write_dataset(table, tmp_path / "theirs")
    assert lance_core.dataset(tmp_path / "theirs").to_table() == table
    assert lance.dataset(tmp_path / "ours").to_table() == table


def test_columns_beside_the_classes_of_the_reference(tmp_path: Path) -> None:
    table = columns_of(reference.bfloat16_array([1.5, -2, 3.25, 1e30]))
    dataset = lance_core.write_dataset(table, tmp_path)
    assert dataset.to_table() == table == lance.dataset(tmp_path).to_table()
    value = dataset.to_table()["value"].combine_chunks()
    assert cast(value, pa.float32()).to_pylist() == [1.5, -2]


@pytest.mark.usefixtures("own_types")
def test_a_name_that_does_not_fit_its_storage_type(tmp_path: Path) -> None:
    metadata = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
    table = pa.table([[1, 2]], schema=pa.schema([pa.field("x", pa.int64(), metadata=metadata)]))
    assert lance_core.write_dataset(table, tmp_path).to_table()["x"].to_pylist() == [1, 2]


def series(values: list[Any]) -> pd.Series:
    found = bfloat16_array(values).to_pandas()
    assert isinstance(found.array, PandasBFloat16Array)
    return found


@pytest.mark.usefixtures("own_types")
def test_pandas() -> None:
    data = [1.1, None, 3.4]
    column = series(data)
    assert column[0] == BFloat16(1.1)
    assert column[1] is None
    assert column.isna().tolist() == [False, True, False]
    assert str(column.dtype) == "lance.bfloat16"
    again = pa.array(column)
    assert again == bfloat16_array(data)
    pd.testing.assert_series_equal(again.to_pandas(), column)
    assert column.to_numpy(dtype=np.float32).tolist()[0] == np.float32(1.1015625)
    chunks = pa.chunked_array([bfloat16_array([1]), bfloat16_array([None, 2])])
    assert chunks.to_pandas().tolist() == [BFloat16(1), None, BFloat16(2)]


def test_columns_of_pandas_have_what_pandas_needs() -> None:
    """The reference lacks taking, joining and sorting."""
    column = series([3, None, 1, 2])
    assert column.iloc[[2, 0]].tolist() == [BFloat16(1), BFloat16(3)]
    assert column[column.notna()].sort_values().tolist() == [BFloat16(1), BFloat16(2), BFloat16(3)]
    assert column.sort_values().isna().tolist() == [False, False, False, True]
    assert column.iloc[1:3].tolist() == [None, BFloat16(1)]
    assert pd.concat([column, column]).shape == (8,)
    assert column.reindex([0, 9]).tolist() == [BFloat16(3), None]
    assert column.dropna().tolist() == [BFloat16(3), BFloat16(1), BFloat16(2)]
    assert column.copy().equals(column)
    assert (column == series([3, None, 1, 5])).tolist()[2:] == [True, False]
    assert "3" in repr(column)
    assert column.array.take([0, -1], allow_fill=True, fill_value=BFloat16(7)).tolist()[1] == BFloat16(7)
    made = pd.Series([1.5, None], dtype=PandasBFloat16Type())
    assert made.tolist() == [BFloat16(1.5), None]
    frame = pd.DataFrame({"k": [1, 2], "x": made})
    assert frame.merge(frame, on="k")["x_x"].tolist() == [BFloat16(1.5), None]


def test_numpy_without_nulls_only() -> None:
    pytest.importorskip(
        "ml_dtypes", reason="the values of NumPy come with ml_dtypes, which is no requirement"
    )
    from ml_dtypes import bfloat16

    array = bfloat16_array([9, 1.1, 2.1, 3.4]).slice(1)
    expected = np.array([1.1, 2.1, 3.4], dtype=bfloat16)
    np.testing.assert_array_equal(array.to_numpy(), expected)
    assert BFloat16Array.from_numpy(expected).equals(array)
    np.testing.assert_array_equal(PandasBFloat16Array.from_numpy(expected).to_numpy(), expected)
    assert array[0] == bfloat16(1.1)
    with pytest.raises(InvalidInputError, match="one dimension"):
        BFloat16Array.from_numpy(expected.reshape(3, 1))
    with pytest.raises(InvalidInputError, match="nulls"):
        bfloat16_array([None]).to_numpy()


def test_arrays_of_other_numbers_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="type bfloat16"):
        BFloat16Array.from_numpy(np.array([1.0]))
