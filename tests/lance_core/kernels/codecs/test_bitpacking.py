"""Bit packing against a twin that places one value at a time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.draws import draws
from support.twins import inputs, packing

WORDS = (8, 16, 32, 64)


def random_values(rng: random.Random, num_values: int, width: int) -> list[int]:
    return [rng.getrandbits(width) if width else 0 for _ in range(num_values)]


def unpack_inline(chunks: list[bytes], counts: list[int], word_bits: int, shift: int = 0) -> list[int]:
    block = kernels.unpack_inline(inputs.stream(chunks, shift), inputs.counts(counts), word_bits)
    return inputs.numbers(block, f"<u{word_bits // 8}")


def unpack_out_of_line(
    chunks: list[bytes], counts: list[int], word_bits: int, width: int, shift: int = 0
) -> list[int]:
    stream = inputs.stream(chunks, shift)
    block = kernels.unpack_out_of_line(stream, inputs.counts(counts), word_bits, width)
    return inputs.numbers(block, f"<u{word_bits // 8}")


def test_the_example_of_the_format() -> None:
    """u8 values i % 5 in three bits: lane 0 packs 0, 3, 1, 4, 2, 0, 3, 1 into 58 28 2c."""
    chunk = packing.pack_inline([i % 5 for i in range(1024)], 8)
    assert chunk[:6] == bytes.fromhex("03 58 a1 c2 0b 14")
    assert (chunk[1], chunk[1 + 128], chunk[1 + 256]) == (0x58, 0x28, 0x2C)
    assert unpack_inline([chunk], [1024], 8) == [i % 5 for i in range(1024)]


@pytest.mark.parametrize("word_bits", WORDS)
def test_every_width_unpacks_arbitrary_groups_like_the_twin(word_bits: int) -> None:
    rng = random.Random(word_bits)
    for width in range(word_bits + 1):
        packed = rng.randbytes(128 * width)
        expected = packing.unpack_group(packed, word_bits, width)
        header = width.to_bytes(word_bits // 8, "little")
        assert unpack_inline([header + packed], [1024], word_bits, shift=width % 8) == expected, width


@pytest.mark.parametrize("word_bits", WORDS)
def test_the_twin_undoes_itself(word_bits: int) -> None:
    """The packer follows the order of rows and lanes, the unpacker the formula for one value."""
    for width in {0, 1, word_bits // 2 + 1, word_bits}:
        values = random_values(random.Random(width), 1024, width)
        assert packing.unpack_group(packing.pack_group(values, word_bits, width), word_bits, width) == values


@settings(max_examples=draws(40), deadline=None)
@given(
    st.sampled_from(WORDS),
    st.lists(st.sampled_from((0, 1, 2, 1000, 1023, 1024)), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_inline_chunks_of_any_length(word_bits: int, counts: list[int], rng: random.Random) -> None:
    values = [random_values(rng, n, rng.randint(0, word_bits)) for n in counts]
    chunks = [packing.pack_inline(chunk, word_bits) for chunk in values]
    assert unpack_inline(chunks, counts, word_bits, rng.randrange(8)) == inputs.joined(values)


@settings(max_examples=draws(40), deadline=None)
@given(
    st.sampled_from(WORDS),
    st.lists(st.sampled_from((1, 3, 700, 1024, 1500, 2048, 2051)), min_size=1, max_size=2),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_out_of_line_with_raw_and_packed_tails(
    word_bits: int, counts: list[int], raw_tail: bool, rng: random.Random
) -> None:
    """The tail's form follows from the length alone; where both forms are as long it is raw."""
    width = rng.randint(1, word_bits - 1)
    lanes = 1024 // word_bits
    values = [random_values(rng, n, width) for n in counts]
    chunks = [
        packing.pack_out_of_line(
            chunk, word_bits, width, raw_tail=raw_tail or len(chunk) % 1024 == lanes * width
        )
        for chunk in values
    ]
    assert unpack_out_of_line(chunks, counts, word_bits, width, rng.randrange(8)) == inputs.joined(values)


def test_a_tail_that_fits_both_forms_is_raw() -> None:
    values = list(range(64))
    chunk = packing.pack_out_of_line(values, 16, 1, raw_tail=True)
    assert len(chunk) == 128 == len(packing.pack_group(values, 16, 1))
    assert unpack_out_of_line([chunk], [64], 16, 1) == values


def test_values_in_no_bits_are_zero() -> None:
    """The reference writes them so where all values of a page are; the tail may still be raw."""
    assert unpack_out_of_line([b""], [3000], 16, 0) == [0] * 3000
    assert unpack_out_of_line([b"\5\0"], [1025], 16, 0) == [0] * 1024 + [5]


@pytest.mark.parametrize(
    ("chunk", "count"),
    [
        (b"", 0),
        (b"\x21\0\0\0" + bytes(128 * 33), 5),
        (b"\x03\0\0\0" + bytes(128 * 3 - 1), 5),
        (b"\x03\0\0\0" + bytes(128 * 3), 1025),
        (b"\xff\xff\xff\xff", 5),
    ],
    ids=["no width", "width above the word", "group too short", "more than a group", "huge width"],
)
def test_inline_chunks_that_lie(chunk: bytes, count: int) -> None:
    """T22: a width or a count that the bytes do not hold is refused."""
    with pytest.raises(CorruptData):
        unpack_inline([chunk], [count], 32)


@pytest.mark.parametrize(
    ("size", "count", "width"),
    [
        (0, 1, 3),
        (128 * 3 - 2, 1024, 3),
        (128 * 3 + 2, 1024, 3),
        (2 * 128 * 3, 1024, 3),
        (7, 4, 3),
        (2, 1024, 0),
        (2, 1, 16),
    ],
    ids=[
        "empty",
        "short group",
        "long group",
        "group for no tail",
        "odd bytes",
        "bytes for no bits",
        "all bits",
    ],
)
def test_out_of_line_chunks_that_lie(size: int, count: int, width: int) -> None:
    """T22: a length that is neither of the two a tail can have is refused."""
    with pytest.raises(CorruptData):
        unpack_out_of_line([bytes(size)], [count], 16, width)


@pytest.mark.parametrize("word_bits", [0, 1, 7, 24, 128])
def test_words_that_do_not_exist(word_bits: int) -> None:
    stream, counts = inputs.stream([bytes(512)]), inputs.counts([1])
    with pytest.raises(CorruptData):
        kernels.unpack_inline(stream, counts, word_bits)
    with pytest.raises(CorruptData):
        kernels.unpack_out_of_line(stream, counts, word_bits, 1)


@pytest.mark.parametrize("word_bits", [32, 64])
def test_values_that_do_not_fit_into_caches(word_bits: int) -> None:
    """Results of some MiB are written in another way; also behind a short chunk, where nothing is aligned."""
    groups = [list(range(k, k + 1024)) for k in range(5)]
    packed = [packing.pack_inline(group, word_bits) for group in groups]
    order = [k % 5 for k in range(1200)]
    chunks, sizes, expected = [], [], []
    for number, k in enumerate(order):
        num_values = 1021 if number in (3, 700) else 1024
        chunks.append(packed[k])
        sizes.append(num_values)
        expected += groups[k][:num_values]
    unpacked = kernels.unpack_inline(inputs.stream(chunks), inputs.counts(sizes), word_bits)
    assert len(unpacked) > 4 << 20
    assert inputs.numbers(unpacked, f"<u{word_bits // 8}") == expected
