"""Work in rounds: what is asked for together comes back to the right part."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.range_requests import Steps, nothing, run, together


def _count(first: int, rounds: int) -> Steps[list[bytes]]:
    """Asks for one byte, then two, then three, ..."""
    seen = []
    for length in range(1, rounds + 1):
        buffers = yield [(first, 1)] * length
        seen.append(b"".join(bytes(memoryview(buffer)) for buffer in buffers))
    return seen


def test_parts_of_different_length() -> None:
    asked: list[int] = []

    def fetch(ranges: list[tuple[int, int]]) -> list[pa.Buffer]:
        asked.append(len(ranges))
        return [pa.py_buffer(bytes([first])) for first, _ in ranges]

    parts = [_count(7, 2), nothing([]), _count(9, 3), together([_count(1, 1)])]
    assert run(together(parts), fetch) == [
        [b"\x07", b"\x07\x07"],
        [],
        [b"\x09", b"\x09\x09", b"\x09\x09\x09"],
        [[b"\x01"]],
    ]
    assert asked == [3, 4, 3]


def test_errors_end_the_work() -> None:
    def fail() -> Steps[None]:
        yield [(0, 1)]
        raise KeyError("part")

    with pytest.raises(KeyError, match="part"):
        run(together([_count(1, 2), fail()]), lambda ranges: [pa.py_buffer(b"x") for _ in ranges])
