"""Partitions of a vector index: which rows of its files each partition has, and the centroids.

Both files of a segment have an `IVF` message in the global buffer that their metadata `lance:ivf` names.
The rows of a partition are consecutive. Row `p` of the centroids is the centroid of partition `p`.

Source: docs/format.md, "Index files".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptFileError, UnsupportedFeatureError
from lance_core.index.index_file import IndexFile
from lance_core.proto import index_pb2

IVF_KEY = "lance:ivf"

Numbers = npt.NDArray[np.int64]
Array = npt.NDArray[np.generic]

_ELEMENT_TYPES = {1: "<f2", 2: "<f4", 3: "<f8", 4: "u1", 5: "<u2", 6: "<u4", 7: "<u8"}
_NUMBER_OF = {np.dtype(name): number for number, name in _ELEMENT_TYPES.items()}


@dataclass(frozen=True)
class Partitions:
    """Rows of the partitions in one file: partition `p` has `[starts[p], starts[p] + lengths[p])`."""

    starts: Numbers
    lengths: Numbers
    centroids: Array | None
    """Two dimensions; None if the file has no centroids."""
    loss: float | None
    """Sum of the distances of all rows to their centroids, if the file says it."""

    def __len__(self) -> int:
        return len(self.lengths)


def read_partitions(file: IndexFile, *, has_rows: bool = True) -> Partitions:
    """Return the partitions that a file of a vector index describes.

    Args:
        file: The file.
        has_rows: Whether the partitions are rows of this file. `index.idx` of an index without graphs has no
            rows; if the reference merged segments, it repeats the partitions of the other file.

    Raises:
        CorruptFileError: The description is missing, or contradicts itself or the file.
    """
    try:
        message = index_pb2.IVF.FromString(file.global_buffer(file.integer(IVF_KEY)))
    except DecodeError:
        raise CorruptFileError("partitions of a vector index do not decode", file=file.name) from None
    starts, lengths = np.array(message.offsets, np.uint64), np.array(message.lengths, np.uint64)
    if len(starts) != len(lengths):
        raise CorruptFileError(
            "partitions of a vector index", file=file.name, expected=len(starts), found=len(lengths)
        )
    if has_rows and (
        np.any(starts > file.num_rows) or np.any(lengths > file.num_rows - np.minimum(starts, file.num_rows))
    ):
        raise CorruptFileError(
            "a partition ends after the last row of its file", file=file.name, expected=file.num_rows
        )
    if message.HasField("centroids_tensor"):
        centroids: Array | None = read_tensor(message.centroids_tensor, file.name)
    else:
        centroids = np.array(message.centroids, np.float32) if message.centroids else None
        if centroids is not None and (not len(lengths) or len(centroids) % len(lengths)):
            raise CorruptFileError("centroids of a vector index", file=file.name, found=len(centroids))
        centroids = None if centroids is None else centroids.reshape(len(lengths), -1)
    if centroids is not None and centroids.ndim != 2:
        raise CorruptFileError("shape of the centroids", file=file.name, found=centroids.shape)
    return Partitions(
        starts.astype(np.int64),
        lengths.astype(np.int64),
        centroids,
        message.loss if message.HasField("loss") else None,
    )


def read_tensor(message: index_pb2.Tensor, file: str) -> Array:
    """Return the numbers of a tensor in its shape; `file` is for errors.

    Raises:
        CorruptFileError: The bytes do not have the shape.
        UnsupportedFeatureError: The numbers are of a type that NumPy lacks.
    """
    if message.data_type not in _ELEMENT_TYPES:
        raise UnsupportedFeatureError("numbers of a vector index", file=file, found=message.data_type)
    dtype = np.dtype(_ELEMENT_TYPES[message.data_type])
    count = int(np.prod([int(size) for size in message.shape], dtype=object)) if message.shape else 0
    if count * dtype.itemsize != len(message.data):
        raise CorruptFileError(
            "size of an array of a vector index",
            file=file,
            expected=count * dtype.itemsize,
            found=len(message.data),
        )
    return np.frombuffer(message.data, dtype).reshape(tuple(message.shape))


def tensor_of(values: Array) -> index_pb2.Tensor:
    """Return the message for an array."""
    return index_pb2.Tensor(
        data_type=_NUMBER_OF[values.dtype], shape=values.shape, data=np.ascontiguousarray(values).tobytes()
    )
