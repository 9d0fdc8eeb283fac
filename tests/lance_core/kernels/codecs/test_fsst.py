"""FSST against a twin that expands one code at a time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData, SymbolTable
from support.runs.draws import draws
from support.runs.each_case import each_case
from support.twins import fsst, inputs, values

FULL = [bytes([i]) * (i % 8 + 1) for i in range(255)]
PARTIAL = [b"https://", b"/", b".com", b"ab", b"a"]
tables = st.one_of(
    st.sampled_from([FULL, PARTIAL, []]),
    st.lists(st.binary(min_size=1, max_size=8), max_size=255),
)


def random_codes(rng: random.Random, symbols: list[bytes], length: int) -> bytes:
    """Return a value of `length` codes, with escapes here and there or everywhere."""
    escapes = 1.0 if not symbols else rng.choice((0.0, 0.0, 0.1, 1.0))
    codes = (
        [fsst.ESCAPE, rng.randrange(256)] if rng.random() < escapes else [rng.randrange(len(symbols))]
        for _ in range(length)
    )
    return b"".join(map(bytes, codes))


every_way = pytest.mark.parametrize("way", kernels.expand_ways())


def expand(
    way: str, symbols: list[bytes], chunks: list[list[bytes]], offset_bits: int, shift: int = 0, gap: int = 0
) -> list[bytes]:
    """Values of mini-block chunks."""
    stream = inputs.stream([values.variable_chunk(chunk, offset_bits, gap) for chunk in chunks], shift)
    table = SymbolTable(fsst.symbol_table(symbols, garbage=b"\xaa"), way)
    offsets, data = kernels.expand_symbols(table, stream, inputs.counts(list(map(len, chunks))), offset_bits)
    return inputs.texts(offsets, data, offset_bits)


def expand_values(
    way: str, symbols: list[bytes], codes: list[bytes], offset_bits: int, shift: int = 0
) -> list[bytes]:
    """Values under Arrow offsets."""
    offsets, data = kernels.expand_symbol_values(
        SymbolTable(fsst.symbol_table(symbols), way),
        inputs.place(values.arrow_offsets(codes, offset_bits), shift),
        inputs.place(b"".join(codes), shift),
        len(codes),
        offset_bits,
    )
    return inputs.texts(offsets, data, offset_bits)


@every_way
@settings(max_examples=draws(120), deadline=None)
@given(tables, st.sampled_from((32, 64)), st.randoms(use_true_random=False))
def test_chunks_expand_like_the_twin(
    way: str, symbols: list[bytes], offset_bits: int, rng: random.Random
) -> None:
    chunks = [
        [
            random_codes(rng, symbols, rng.choice((0, 1, 2, 3, 4, 5, 9, 30, 200)))
            for _ in range(rng.randint(1, 12))
        ]
        for _ in range(rng.randint(1, 4))
    ]
    expected = [fsst.decode(codes, symbols) for chunk in chunks for codes in chunk]
    gap = rng.choice((0, 0, 3))
    assert expand(way, symbols, chunks, offset_bits, rng.randrange(8), gap) == expected
    flat = [codes for chunk in chunks for codes in chunk]
    assert expand_values(way, symbols, flat, offset_bits, rng.randrange(8)) == expected


@every_way
@pytest.mark.parametrize("symbols", [FULL, PARTIAL], ids=["full", "partial"])
def test_escapes_at_every_position(way: str, symbols: list[bytes]) -> None:
    """The fast loop takes eight or 64 codes at a time; an escape may be any of them, or sit on its edge."""
    codes = [
        bytes(before) + bytes([fsst.ESCAPE, escaped]) + bytes(behind)
        for before in range(10)
        for behind in range(10)
        for escaped in (0, 65, 254, 255)
    ]
    assert expand(way, symbols, [codes], 32) == [fsst.decode(value, symbols) for value in codes]


@every_way
def test_output_grows_beyond_a_sample_that_misleads(way: str) -> None:
    """The guess comes from the middle chunk; the others expand eight times as much."""
    symbols = [b"x" if i == 0 else bytes([i]) * 8 for i in range(255)]
    dull, rich = [b"\0" * 50] * 20, [b"\1\2\3\4" * 50] * 200
    chunks = [rich, dull, rich]
    expected = [fsst.decode(codes, symbols) for chunk in chunks for codes in chunk]
    assert expand(way, symbols, chunks, 32) == expected
    flat = [*dull * 5, *rich]  # the sample is the first 4096 bytes of codes
    assert expand_values(way, symbols, flat, 64) == [fsst.decode(codes, symbols) for codes in flat]


@every_way
@pytest.mark.parametrize("num_symbols", [2, 255], ids=["partial", "full"])
def test_output_that_just_fits(way: str, num_symbols: int) -> None:
    """T23: symbols are stored as eight bytes, eight at once, so the last one needs room behind it.

    The sample promises one byte per code and 4096 bytes in reserve; the texts here are about that long.
    """
    symbols = [b"x", b"12345678", *(bytes([i]) for i in range(2, num_symbols))]
    for num_codes in range(600, 608):
        for long in range(583, 592):
            codes = b"\1" * long + b"\0" * (num_codes - long)
            expected = [fsst.decode(codes, symbols), b"x", b""]
            n = 2 + long % 2
            assert expand(way, symbols, [[codes], [b"\0"], [b""]][:n], 32) == expected[:n]


def test_a_table_that_is_switched_off_leaves_text_alone() -> None:
    table = SymbolTable(fsst.symbol_table(PARTIAL, codes=False))
    assert not table.codes
    stream = inputs.stream([values.variable_chunk([b"\x00\xff", b"abc"], 32)])
    offsets, data = kernels.expand_symbols(table, stream, inputs.counts([2]), 32)
    assert inputs.texts(offsets, data, 32) == [b"\x00\xff", b"abc"]


@settings(max_examples=draws(60), deadline=None)
@given(
    st.lists(st.tuples(tables, st.booleans(), st.integers(0, 3)), max_size=4),
    st.sampled_from((32, 64)),
    st.randoms(use_true_random=False),
)
def test_pages_with_tables_of_their_own(
    pages: list[tuple[list[bytes], bool, int]], offset_bits: int, rng: random.Random
) -> None:
    """Some tables are switched off, and a page may have no chunks."""
    chunks, expected = [], []
    for symbols, codes, num_chunks in pages:
        for _ in range(num_chunks):
            chunks.append([random_codes(rng, symbols, rng.choice((0, 1, 5, 30))) for _ in range(5)])
            expected += [fsst.decode(each, symbols) if codes else each for each in chunks[-1]]
    parsed = [SymbolTable(fsst.symbol_table(symbols, codes=codes)) for symbols, codes, _ in pages]
    stream = inputs.stream([values.variable_chunk(chunk, offset_bits) for chunk in chunks])
    num_chunks = inputs.int64s([number for _, _, number in pages])
    counts = inputs.counts([5] * len(chunks))
    offsets, data = kernels.expand_page_symbols(parsed, num_chunks, stream, counts, offset_bits)
    assert inputs.texts(offsets, data, offset_bits) == expected


@pytest.mark.parametrize("num_chunks", [[1], [1, 2], [-1, 3], [2, 1], [3, -1], [1 << 62, 1], [1, 0]])
def test_pages_with_other_numbers_of_chunks(num_chunks: list[int]) -> None:
    """T22: the pages have two chunks together."""
    stream = inputs.stream([values.variable_chunk([b"a"], 32)] * 2)
    two = [SymbolTable(fsst.symbol_table(PARTIAL))] * 2
    with pytest.raises(CorruptData):
        kernels.expand_page_symbols(two, inputs.int64s(num_chunks), stream, inputs.counts([1, 1]), 32)


def test_a_page_without_a_symbol_table_is_refused() -> None:
    stream = inputs.stream([values.variable_chunk([b"a"], 32)])
    with pytest.raises(RuntimeError, match="cast"):
        kernels.expand_page_symbols([None], inputs.int64s([1]), stream, inputs.counts([1]), 32)  # type: ignore[list-item]


@every_way
def test_the_twin_encoder_round_trips(way: str) -> None:
    text = b"https://example.com/item/0"
    codes = fsst.encode(text, PARTIAL)
    assert len(codes) < 2 * len(text)
    assert expand(way, PARTIAL, [[codes]], 32) == [text]


@every_way
@each_case("symbols", [FULL, PARTIAL])
@each_case("codes", [b"\xff\xff\xff", *(b"\0" * before + b"\xff" for before in range(9))])
def test_an_escape_never_reaches_into_the_next_value(way: str, symbols: list[bytes], codes: bytes) -> None:
    """T22: each value is coded on its own."""
    with pytest.raises(CorruptData):
        expand(way, symbols, [[codes, b"\0\0"]], 32)
    with pytest.raises(CorruptData):
        expand_values(way, symbols, [codes, b"\0\0"], 32)


@every_way
@pytest.mark.parametrize("code", [len(PARTIAL), 254])
def test_a_code_without_a_symbol(way: str, code: int) -> None:
    """T22: a table that is not full can be asked for symbols it lacks."""
    with pytest.raises(CorruptData):
        expand(way, PARTIAL, [[bytes([0, code])]], 32)


def test_tables_that_lie() -> None:
    """T22: too short, without the mark, or with a symbol of no or of nine bytes."""
    good = fsst.symbol_table(PARTIAL)
    SymbolTable(good)
    for bad in (
        b"",
        good[:7],
        good[:50],
        good[:4] + b"TSSG" + good[8:],
        b"\xff" + good[1:200],
        good[: 8 + 8 * 5] + b"\0" + good[8 + 8 * 5 + 1 :],
        good[: 8 + 8 * 5] + b"\x09" + good[8 + 8 * 5 + 1 :],
    ):
        with pytest.raises(CorruptData):
            SymbolTable(inputs.place(bad))


def test_offsets_that_lie() -> None:
    """T22: offsets that decrease, leave their chunk or start inside their own table."""
    table = SymbolTable(fsst.symbol_table(FULL))
    for offsets in ([12, 20, 14], [12, 14, 99], [8, 12, 14], [14, 13, 12], [12, 11, 14]):
        stream = inputs.stream([values.integers(offsets, 32) + b"\0" * 4])
        with pytest.raises(CorruptData):
            kernels.expand_symbols(table, stream, inputs.counts([2]), 32)


def test_a_way_that_no_processor_has() -> None:
    with pytest.raises(ValueError, match="by hand"):
        SymbolTable(fsst.symbol_table(PARTIAL), "by hand")


@every_way
def test_values_longer_than_what_is_expanded_at_once(way: str) -> None:
    """Chunks of more than 64 KiB of codes in long values are expanded value by value."""
    rng = random.Random(3)
    codes = [random_codes(rng, FULL, 40_000) for _ in range(3)]
    expected = [fsst.decode(value, FULL) for value in codes]
    assert expand(way, FULL, [codes], 32) == expected
    assert expand_values(way, FULL, codes, 64) == expected
