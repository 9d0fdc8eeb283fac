"""NumPy arrays over the blocks that kernels return, without copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer


def uint32s(block: Buffer) -> npt.NDArray[np.uint32]:
    """Return the unsigned 32-bit integers of a block."""
    return np.frombuffer(memoryview(block), np.uint32)


def int32s(block: Buffer) -> npt.NDArray[np.int32]:
    """Return the 32-bit integers of a block."""
    return np.frombuffer(memoryview(block), np.int32)


def int64s(block: Buffer) -> npt.NDArray[np.int64]:
    """Return the 64-bit integers of a block."""
    return np.frombuffer(memoryview(block), np.int64)


def float32s(block: Buffer) -> npt.NDArray[np.float32]:
    """Return the 32-bit floats of a block."""
    return np.frombuffer(memoryview(block), np.float32)
