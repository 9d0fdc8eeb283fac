"""Rotations of vectors, which spread the information of a vector evenly over its dimensions.

The fast rotation flips signs and mixes dimensions in four rounds. Round `r` takes the signs from the bits
of the bytes `[r * w, (r + 1) * w)` with `w = ceil(dimension / 8)`, lowest bit first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
ROUNDS = 4


def random_signs(dimension: int, random: np.random.Generator | None = None) -> npt.NDArray[np.uint8]:
    """Return the signs of a random fast rotation; without a generator other ones in every call."""
    chance = np.random.default_rng() if random is None else random
    return chance.integers(0, 256, ROUNDS * -(-dimension // 8), np.uint8)


class Rotation(Protocol):
    """Rotation of vectors."""

    def __call__(self, vectors: Floats) -> Floats:
        """Return the rotated vectors; the last axis has the dimensions."""


@dataclass(frozen=True)
class MatrixRotation:
    """Product with an orthogonal matrix."""

    matrix: Floats

    def __call__(self, vectors: Floats) -> Floats:
        return np.ascontiguousarray(vectors @ self.matrix.T, np.float32)


@dataclass(frozen=True)
class FastRotation:
    """Rotation by signs and butterflies; `signs` has `ROUNDS * ceil(dimension / 8)` bytes."""

    signs: npt.NDArray[np.uint8]
    dimension: int

    def __call__(self, vectors: Floats) -> Floats:
        dimension = self.dimension
        flips = np.unpackbits(self.signs.reshape(ROUNDS, -1), axis=1, bitorder="little")[:, :dimension]
        values = np.array(vectors, np.float32)
        size = 1 << (dimension.bit_length() - 1)
        for number, flip in enumerate(flips):
            values *= np.where(flip, np.float32(-1), np.float32(1))
            start = dimension - size if number % 2 else 0
            _mix(values[..., start : start + size])
            if size != dimension:
                half = dimension // 2
                low, high = values[..., :half].copy(), values[..., half : 2 * half].copy()
                values[..., :half] = low + high
                values[..., half : 2 * half] = low - high
        return values if size == dimension else values * np.float32(0.25)

    def as_matrix(self) -> MatrixRotation:
        """Return the same rotation as a matrix, which is faster for few vectors and for very many."""
        return MatrixRotation(np.ascontiguousarray(self(np.eye(self.dimension, dtype=np.float32)).T))


def _mix(values: Floats) -> None:
    """Apply the Walsh-Hadamard transform to the last axis, a power of two, in place and keeping norms."""
    size = values.shape[-1]
    half = 1
    while half < size:
        pairs = values.reshape(*values.shape[:-1], size // (2 * half), 2, half)
        low, high = pairs[..., 0, :].copy(), pairs[..., 1, :].copy()
        mixed = np.stack((low + high, low - high), axis=-2)
        values[...] = mixed.reshape(values.shape)
        half *= 2
    values *= np.float32(1 / np.sqrt(size))


def describe_codes(signs: npt.NDArray[np.uint8], dimension: int, num_bits: int) -> dict[str, Any]:
    """Return the description of RaBitQ codes of vectors in a fast rotation, as files have it."""
    return {
        "rotate_mat_position": None,
        "fast_rotation_signs": signs.tolist(),
        "rotation_type": "fast",
        "code_dim": dimension,
        "num_bits": num_bits,
        "packed": False,
        "query_estimator": "raw_query",
    }
