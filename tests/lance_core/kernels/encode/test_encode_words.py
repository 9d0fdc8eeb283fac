"""Values of fixed width, encoded: against twins, and read back by the decoding kernels."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData
from support.runs.each_case import each_case
from support.twins import inputs, packing, values

WORDS = (8, 16, 32, 64)


def words(numbers: list[int], bits: int, shift: int = 0) -> memoryview:
    return inputs.place(values.integers(numbers, bits), shift)


def random_words(rng: random.Random, n: int, bits: int) -> list[int]:
    """Stretches of different widths, with runs in them."""
    numbers: list[int] = []
    while len(numbers) < n:
        width = rng.randrange(bits + 1)
        numbers += [rng.getrandbits(width) if width else 0] * rng.choice((1, 1, 2, 5, 300))
    return numbers[:n]


@each_case("bits", WORDS)
@each_case("n", [1, 1023, 1024, 1025, 2500])
def test_inline_chunks_are_those_of_the_twin(bits: int, n: int) -> None:
    numbers = random_words(random.Random(n), n, bits)
    expected = [packing.pack_inline(numbers[i : i + 1024], bits) for i in range(0, n, 1024)]
    assert kernels.pack_inline(words(numbers, bits, 1), bits).chunks() == expected


@pytest.mark.parametrize("bits", WORDS)
def test_every_width_packs_like_the_twin(bits: int) -> None:
    rng = random.Random(bits)
    for width in range(bits + 1):
        numbers = [rng.getrandbits(width) if width else 0 for _ in range(1023)]
        numbers.append((1 << width) - 1)
        assert kernels.pack_inline(words(numbers, bits), bits).chunks() == [
            packing.pack_inline(numbers, bits)
        ]


@each_case("bits", WORDS)
@each_case("n", [0, 1, 100, 1000, 1024, 1600, 2048])
def test_blocks_pack_their_tail_where_that_is_shorter(bits: int, n: int) -> None:
    width = bits // 2 - 1
    numbers = [random.Random(i).getrandbits(width) for i in range(n)]
    forms = [packing.pack_out_of_line(numbers, bits, width, raw_tail=raw) for raw in (True, False)]
    expected = min(forms, key=len)  # the raw one of two equals: readers tell them apart by their length
    assert bytes(memoryview(kernels.pack_out_of_line(words(numbers, bits), bits, width))) == expected


@pytest.mark.parametrize("bits", WORDS)
@given(st.integers(0, 2**32), st.integers(1, 3000))
def test_a_survey_counts_what_packing_and_runs_take(bits: int, seed: int, n: int) -> None:
    numbers = random_words(random.Random(seed), n, bits)
    packed_bytes, num_runs, highest, *bounds = kernels.survey_words(words(numbers, bits), bits)
    assert packed_bytes == sum(map(len, kernels.pack_inline(words(numbers, bits), bits).chunks()))
    assert num_runs == 1 + sum(a != b for a, b in pairwise(numbers))
    assert highest == max(numbers).bit_length()
    assert bounds == [min(numbers), max(numbers)]
    signed = sorted(numbers, key=lambda number: (number + (1 << bits - 1)) % (1 << bits))
    assert kernels.survey_words(words(numbers, bits), bits, True)[3:] == (signed[0], signed[-1])


@pytest.mark.parametrize("bits", WORDS)
@given(st.integers(0, 2**32), st.integers(1, 3000))
def test_runs_are_those_of_the_twin(bits: int, seed: int, n: int) -> None:
    numbers = random_words(random.Random(seed), n, bits)
    counts, run_values, lengths = kernels.encode_runs(words(numbers, bits), bits, 512, 600)
    assert counts.total == n
    start = 0
    for found, lengths_found in zip(run_values.chunks(), lengths.chunks(), strict=True):
        count = sum(lengths_found)
        assert (found, lengths_found) == values.runs(numbers[start : start + count], bits)
        assert len(found) + len(lengths_found) <= 600 or count <= 2
        assert count <= 512
        assert start + count == n or count & (count - 1) == 0
        start += count
    assert start == n
    assert inputs.numbers(kernels.expand_runs(run_values, lengths, counts, bits), f"<u{bits // 8}") == numbers


@pytest.mark.parametrize("width", [2, 4, 8])
def test_byte_streams_are_those_of_the_twin(width: int) -> None:
    rng = random.Random(width)
    parts = [rng.randbytes(width) for _ in range(37)]
    expected = b"".join(values.split_bytes(parts[i : i + 16]) for i in range(0, 37, 16))
    split = kernels.split_byte_streams(inputs.place(b"".join(parts), 1), width, 16)
    assert bytes(memoryview(split)) == expected


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 20), st.integers(0, 2**32))
def test_bits_are_cut_at_bytes(counts: list[int], offset: int, seed: int) -> None:
    rng = random.Random(seed)
    flags = [rng.random() < 0.5 for _ in range(offset + sum(counts))]
    cut = kernels.cut_bits(inputs.place(inputs.bitmap(flags), 1), offset, inputs.counts(counts))
    expected, start = b"", offset
    for count in counts:
        expected += inputs.bitmap(flags[start : start + count])
        start += count
    assert bytes(memoryview(cut)) == expected


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: kernels.pack_inline(b"1234", 24),
        lambda: kernels.pack_out_of_line(b"1234", 16, 16),
        lambda: kernels.survey_words(b"1234", 1),
        lambda: kernels.encode_runs(b"1234", 32, 3, 100),
        lambda: kernels.encode_runs(b"1234", 31, 4, 100),
        lambda: kernels.split_byte_streams(b"12345", 4, 16),
        lambda: kernels.split_byte_streams(b"1234", 4, 0),
        lambda: kernels.cut_bits(b"1", 4, inputs.counts([5])),
        lambda: kernels.cut_bits(b"", 1, inputs.counts([])),
    ],
)
def test_sizes_that_do_not_fit_are_refused(kernel: object) -> None:
    with pytest.raises(CorruptData):
        kernel()  # type: ignore[operator]
