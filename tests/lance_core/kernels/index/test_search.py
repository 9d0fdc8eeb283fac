"""Kernels of index searches, compared with Python."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa
import pytest

from lance_core.kernels import CorruptData, hash_strings, search_strings

STRINGS = [b"", b"\x00", b"a", b"a", b"a\x00", b"ab", b"b", b"b" * 40, b"\xff", b"\xff\xff"]
HASHES = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}
"""Values of the xxHash specification and its test suite."""


def buffers(values: list[bytes], wide: bool) -> tuple[pa.Buffer, pa.Buffer | None, int]:
    array = pa.array(values, pa.large_binary() if wide else pa.binary())
    _, offsets, data = array.buffers()
    width = 8 if wide else 4
    return offsets.slice(0, width * (len(values) + 1)), data, 8 * width


@pytest.mark.parametrize("wide", [False, True])
def test_hashes_are_those_of_the_specification(wide: bool) -> None:
    found = np.frombuffer(hash_strings(*buffers(list(HASHES), wide)), np.uint64)
    assert found.tolist() == list(HASHES.values())


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_searches_are_those_of_python(wide: bool, after: bool) -> None:
    find = bisect_right if after else bisect_left
    needles = [*STRINGS, b"A", b"aa", b"b" * 39, b"c", b"\xff\xff\xff"]
    for some in (STRINGS, STRINGS[:1], []):
        found = search_strings(*buffers(some, wide), *buffers(needles, not wide), after)
        assert np.frombuffer(found, np.int64).tolist() == [find(some, needle) for needle in needles]


@pytest.mark.parametrize(
    "offsets", [[0, 9], [2, 1], [-1, 1]], ids=["beyond the data", "descending", "negative"]
)
def test_wrong_offsets_are_refused(offsets: list[int]) -> None:
    wrong = np.array(offsets, np.int32).data
    with pytest.raises(CorruptData):
        hash_strings(wrong, b"abc", 32)
    with pytest.raises(CorruptData):
        search_strings(wrong, b"abc", 32, *buffers([b"a"], False), False)
    with pytest.raises(CorruptData):
        hash_strings(b"abc", b"abc", 32)
    with pytest.raises(CorruptData):
        hash_strings(wrong, b"abc", 16)
