"""Record batches as tensors.

A tensor has the memory of the Arrow array if nobody else may rely on its bytes, else a copy: scripts change
tensors in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
import torch

from lance_core.api.arrow_types.bfloat16 import is_bfloat16, words_of
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.scan.read.blobs import BlobFile

__all__ = ["ToTensorFn", "bfloat16_tensor", "to_tensors"]

Tensors: TypeAlias = torch.Tensor | dict[str, torch.Tensor]
Batch: TypeAlias = pa.RecordBatch | Mapping[str, Any]
"""Columns by name. The values of a blob column are a list of `BlobFile`."""


class ToTensorFn(Protocol):
    """Function that converts a batch, such as `to_tensors`."""

    def __call__(
        self, batch: Batch, *, hf_converter: Any = None, use_blob_api: bool = False, **kwargs: Any
    ) -> Any:
        """Return what the dataset yields for a batch.

        Args:
            batch: A record batch; or a mapping, if there are blobs.
            hf_converter: None; the reference has an object here for datasets of Hugging Face.
            use_blob_api: Whether there are columns of blobs.
            kwargs: Nothing yet.
        """


def to_tensors(
    batch: Batch,
    *,
    uint64_as_int64: bool = True,
    hf_converter: Any = None,
    use_blob_api: bool = False,
    **kwargs: Any,
) -> Tensors:
    """Return the columns of a batch as tensors by name, or the tensor of the only column.

    Numbers and booleans become tensors of the same type. Fixed-size lists and fixed-shape tensors of numbers
    become tensors of shape (rows, list size). Nulls are NaN: integers with nulls become float64.

    Args:
        batch: The columns.
        uint64_as_int64: Return columns of uint64 as int64, since PyTorch computes little with uint64. Numbers
            of 2**63 and more become negative. Lists stay uint64.
        hf_converter: Converts columns of other types with `to_pytorch(name, array)`, unless it returns None.
        use_blob_api: No effect.
        kwargs: No effect.

    Raises:
        InvalidInputError: A column has another type, or booleans with nulls.
        UnsupportedFeatureError: A column has blobs: give the dataset a `to_tensor_fn` of your own.
    """
    names = batch.schema.names if isinstance(batch, pa.RecordBatch) else list(batch)
    tensors = {}
    for name in names:
        tensor = _tensor(name, batch[name], uint64_as_int64)
        if tensor is None and hf_converter is not None:
            tensor = hf_converter.to_pytorch(name, batch[name])
        if tensor is None:
            raise InvalidInputError(
                f"column {name!r}: only numbers, booleans, and fixed-size lists of numbers become tensors; "
                "leave it out with `columns`, or give a `to_tensor_fn`",
                found=batch[name].type,
            )
        tensors[name] = tensor
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


def bfloat16_tensor(array: pa.Array) -> torch.Tensor:
    """Return a column of bfloat16 as a tensor. Nulls are NaN."""
    words = words_of(array) if len(array) else np.empty(0, "<u2")
    if array.null_count:
        words = np.where(array.is_null().to_numpy(zero_copy_only=False), np.uint16(0x7FC0), words)
    return torch.from_numpy(_writable(words)).view(torch.bfloat16)


def _tensor(name: str, column: Any, uint64_as_int64: bool) -> torch.Tensor | None:
    """Return a column as a tensor, or None if its type has no tensors."""
    if isinstance(column, list) and all(each is None or isinstance(each, BlobFile) for each in column):
        raise UnsupportedFeatureError(f"column {name!r}: blobs have no tensors without a `to_tensor_fn`")
    array = column.storage if isinstance(column.type, pa.FixedShapeTensorType) else column
    if pat.is_fixed_size_list(array.type):
        size, value_type = array.type.list_size, array.type.value_type
        if not (_is_number(value_type) or is_bfloat16(value_type)):
            return None
        elements = array.values.slice(array.offset * size, len(array) * size)
        if is_bfloat16(value_type):
            vectors = bfloat16_tensor(elements).view(-1, size)
        else:
            vectors = torch.from_numpy(_numbers(elements)).view(-1, size)
        return _without(vectors, array) if array.null_count else vectors
    if is_bfloat16(array.type):
        return bfloat16_tensor(array)
    if pat.is_boolean(array.type) and array.null_count:
        raise InvalidInputError(f"column {name!r}: tensors of booleans have no nulls")
    if not (_is_number(array.type) or pat.is_boolean(array.type)):
        return None
    numbers = _numbers(array)
    return torch.from_numpy(
        numbers.view(np.int64) if uint64_as_int64 and numbers.dtype == np.uint64 else numbers
    )


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(pat.is_integer(arrow_type) or pat.is_floating(arrow_type))


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return an array of numbers or booleans for a tensor."""
    if array.null_count or pat.is_boolean(array.type) or not len(array):
        return _writable(array.to_numpy(zero_copy_only=False))
    width = np.dtype(array.type.to_pandas_dtype())
    return _writable(np.frombuffer(array.buffers()[1], width, len(array), array.offset * width.itemsize))


def _writable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values if values.flags.writeable else values.copy()


def _without(vectors: torch.Tensor, array: pa.Array) -> torch.Tensor:
    """Return the vectors with NaN where the list itself is null."""
    floats = vectors if vectors.is_floating_point() else vectors.double()
    floats[torch.from_numpy(array.is_null().to_numpy(zero_copy_only=False))] = float("nan")
    return floats
