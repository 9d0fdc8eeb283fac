"""Record batches as tensors, compared with the reference. The tests need PyTorch: `make test-torch`."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core.api.arrow import bfloat16_array
from lance_core.errors import InvalidInputError

torch = pytest.importorskip("torch", reason="PyTorch is no requirement; `make test-torch` installs it")
reference = import_module("lance.torch.data")
tensors = import_module("lance_core.api.torch.tensors")

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]


def numbers(arrow_type: pa.DataType, with_nulls: bool) -> pa.Array:
    values = np.arange(40).astype(arrow_type.to_pandas_dtype())
    return pa.array(values, arrow_type, mask=np.arange(40) % 7 == 3 if with_nulls else None)


def assert_same(array: pa.Array) -> None:
    batch = pa.record_batch({"x": array})
    ours = tensors.to_tensors(batch)
    with warnings.catch_warnings(action="ignore"):  # its tensors are of memory that must not be written
        theirs = reference._to_tensor(batch)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert torch.allclose(ours.double(), theirs.double(), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("arrow_type", [*INTEGERS, *FLOATS], ids=str)
def test_numbers_and_vectors(arrow_type: pa.DataType, with_nulls: bool) -> None:
    array = numbers(arrow_type, with_nulls)
    vectors = pa.FixedSizeListArray.from_arrays(array, 4)
    for case in (array, array[3:9], array[:0], vectors, vectors[2:5], vectors[:0]):
        assert_same(case)


def test_booleans_and_tensors_of_fixed_shape() -> None:
    assert_same(pa.array([True, False, True])[1:])
    assert_same(pa.FixedShapeTensorArray.from_numpy_ndarray(np.random.rand(5, 2, 3).astype("f")))


@pytest.mark.parametrize(
    "wrap", [lambda array: array, lambda array: pa.FixedSizeListArray.from_arrays(array, 2)]
)
def test_bfloat16(wrap: Any) -> None:
    for array in (bfloat16_array([1, None, -0.0, 2.5, float("inf"), 3]), bfloat16_array([1, 2, 3, 4])):
        for case in (wrap(array), wrap(array)[1:]):
            assert_same(case)
        empty = tensors.to_tensors(pa.record_batch({"x": wrap(array)[:0]}))  # the reference raises an error
        assert (len(empty), empty.dtype) == (0, torch.bfloat16)


@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()], ids=str)
def test_null_vectors_are_nan(arrow_type: pa.DataType) -> None:
    vectors = pa.array([[1, 2], None, [3, None]], pa.list_(arrow_type, 2))
    found = tensors.to_tensors(pa.record_batch({"x": vectors}))
    nan = float("nan")
    expected = torch.tensor([[1, 2], [nan, nan], [3, nan]], dtype=found.dtype)
    assert torch.allclose(found, expected, equal_nan=True)


def test_null_vectors_of_integers_are_nan() -> None:
    values = pa.array([1, 2, 7, 7, 3, 4], pa.int32())
    vectors = pa.FixedSizeListArray.from_arrays(values, 2, mask=pa.array([False, True, False]))
    found = tensors.to_tensors(pa.record_batch({"x": vectors}))
    assert found.dtype == torch.float64
    assert found[0].tolist() == [1, 2]
    assert found[1].isnan().all()
    assert values.to_pylist() == [1, 2, 7, 7, 3, 4]


def test_large_unsigned_numbers() -> None:
    batch = pa.record_batch({"x": pa.array([1, 2**64 - 1], pa.uint64())})
    assert tensors.to_tensors(batch).tolist() == [1, -1]
    assert tensors.to_tensors(batch, uint64_as_int64=False).dtype == torch.uint64


def test_tensors_may_be_changed() -> None:
    """The bytes of an array that others hold stay as they are."""
    array = pa.array([1.5, 2.5])
    shared = pa.Array.from_buffers(array.type, 2, [None, pa.py_buffer(array.buffers()[1].to_pybytes())])
    tensors.to_tensors(pa.record_batch({"x": shared})).zero_()
    assert shared.to_pylist() == [1.5, 2.5]


def test_memory_that_nobody_holds_is_not_copied() -> None:
    array = pa.array(np.arange(4.0))
    array = pa.Array.from_buffers(
        array.type, 4, [None, pa.py_buffer(bytearray(array.buffers()[1].to_pybytes()))]
    )
    found = tensors.to_tensors(pa.record_batch({"x": array[1:]}))
    assert found.data_ptr() == array.buffers()[1].address + 8


def test_several_columns_have_names() -> None:
    batch = pa.record_batch({"a": [1], "b": [2.0]})
    assert {name: each.tolist() for name, each in tensors.to_tensors(batch).items()} == {"a": [1], "b": [2.0]}


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a"]),
        pa.array([True, None]),
        pa.array([[True, False]], pa.list_(pa.bool_(), 2)),
        pa.array([1], pa.date32()),
        pa.array([[1]]),
    ],
    ids=lambda array: str(array.type),
)
def test_other_types_are_refused_by_name(array: pa.Array) -> None:
    with pytest.raises(InvalidInputError, match="'colour'"):
        tensors.to_tensors(pa.record_batch({"colour": array}))


def test_converters_of_other_types() -> None:
    class Lengths:
        def to_pytorch(self, name: str, array: pa.Array) -> Any:
            return torch.tensor([len(each.as_py()) for each in array])

    batch = pa.record_batch({"x": ["a", "bcd"]})
    assert tensors.to_tensors(batch, hf_converter=Lengths()).tolist() == [1, 3]
