"""Layouts of codes, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.index.vector.layouts import scanned, transposed


@pytest.mark.parametrize("width", [1, 2, 96])
@pytest.mark.parametrize("num_rows", [0, 1, 63, 64, 65, 128, 200])
def test_scanned_codes_are_in_blocks_of_64_rows(num_rows: int, width: int) -> None:
    codes = np.random.default_rng(1).integers(0, 256, (num_rows, width)).astype(np.uint8)
    expected = bytearray()
    for first in range(0, num_rows, 64):
        for place in range(width):
            expected += bytes(codes[row, place] for row in range(first, min(first + 64, num_rows)))
    for columns in (codes.T, transposed(codes).reshape(width, num_rows)):
        found = scanned(columns)
        assert found.shape == codes.shape
        assert found.tobytes() == bytes(expected)
