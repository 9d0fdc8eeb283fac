"""Arguments of kernels: bytes at odd addresses, in allocations that end where the data ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np

from lance_core.kernels import Block, CorruptData, Counts, NoResult, OffsetOverflow, Stream

_T = TypeVar("_T")


def place(data: bytes, shift: int = 0) -> memoryview:
    """Return a copy of `data` that ends with its allocation and starts `shift` bytes behind an aligned
    address.

    The sanitizer build gives each block its exact size, so a kernel that reads beyond the data is seen.
    """
    memory = memoryview(Block(shift + len(data)))
    memory[shift:] = data
    return memory[shift:]


def stream(chunks: Sequence[bytes], shift: int = 0, gap: bytes = b"") -> Stream:
    """Return a row of chunks, with `gap` between each two."""
    lengths = [len(chunk) for chunk in chunks]
    starts = [sum(lengths[:i]) + i * len(gap) for i in range(len(chunks))]
    return Stream(place(gap.join(chunks), shift), int64s(starts), int64s(lengths))


def counts(values: Sequence[int]) -> Counts:
    """Return the number of values in each chunk."""
    return Counts(int64s(values))


def int64s(values: Sequence[int]) -> memoryview:
    """Numbers as the kernels take them."""
    return memoryview(np.array(values, "<i8"))


def u16(values: Sequence[int], shift: int = 0) -> memoryview:
    """Levels as the kernels take them."""
    return place(np.array(values, "<u2").tobytes(), shift)


def numbers(block: Block, dtype: str) -> list[int]:
    """Return a block as a list of numbers."""
    return np.frombuffer(block, dtype).tolist()


def texts(offsets: Block, data: Block, offset_bits: int) -> list[bytes]:
    """Offsets and bytes as a list of values; nothing may lie outside them."""
    at = numbers(offsets, f"<u{offset_bits // 8}")
    assert at[0] == 0
    assert at[-1] == len(data)
    return [bytes(memoryview(data)[begin:end]) for begin, end in pairwise(at)]


def joined(lists: Iterable[Sequence[_T]]) -> list[_T]:
    """All items of all lists."""
    return list(chain.from_iterable(lists))


def bits(block: Block, num_bits: int) -> list[bool]:
    """Return the first bits of a bitmap; what follows them in the last byte has to be zero."""
    spelled = np.unpackbits(np.frombuffer(block, np.uint8), bitorder="little").astype(bool).tolist()
    assert len(spelled) == (num_bits + 7) // 8 * 8
    assert not any(spelled[num_bits:])
    return spelled[:num_bits]


def bitmap(values: Sequence[bool]) -> bytes:
    """Return a bitmap, least significant bit first."""
    return np.packbits(np.array(values, bool), bitorder="little").tobytes()


def answer_or_refusal(kernel: Callable[[], _T]) -> _T | None:
    """Return the result of `kernel`, or None if it refuses its input; every other error is a defect."""
    try:
        return kernel()
    except (CorruptData, NoResult, OffsetOverflow):
        return None
