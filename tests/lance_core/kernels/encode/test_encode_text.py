"""Strings and rows, encoded: against twins, and read back by the decoding kernels."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import CorruptData, SymbolTable
from support.runs.each_case import each_case
from support.twins import fsst, inputs, values

TEXTS = st.lists(st.binary(max_size=30), min_size=1, max_size=60)
SAMPLE = 4096


def arrow(texts: list[bytes], bits: int) -> tuple[memoryview, memoryview]:
    """Offsets that do not start at zero, and bytes that end with their memory."""
    offsets = values.arrow_offsets([b"xyz", *texts], bits)[bits // 8 :]
    return inputs.place(offsets, 1), inputs.place(b"xyz" + b"".join(texts), 3)


@pytest.mark.parametrize("bits", [32, 64])
@settings(deadline=None)
@given(TEXTS, st.sampled_from((40, 200, 4096)))
def test_chunks_are_those_of_the_twin(bits: int, texts: list[bytes], target: int) -> None:
    counts, stream = kernels.chunk_variable(*arrow(texts, bits), len(texts), bits, target, 16)
    chunks = stream.chunks()
    start = 0
    for chunk in chunks:
        first = int.from_bytes(chunk[: bits // 8], "little")
        count = first * 8 // bits - 1
        part = texts[start : start + count]
        size = first + sum(map(len, part))
        assert chunk == values.variable_chunk(part, bits)[:size].ljust(len(chunk), b"\0")
        assert len(chunk) == -(-size // (bits // 8)) * (bits // 8)
        assert count <= 16
        assert start + count == len(texts) or count & (count - 1) == 0
        assert count <= 2 or (count + 1) * bits // 8 + sum(map(len, texts[start : start + count])) <= target
        start += count
    assert start == len(texts) == counts.total
    found = inputs.texts(*kernels.join_variable(stream, counts, bits), bits)
    assert found == texts


@pytest.mark.parametrize("bits", [32, 64])
@settings(deadline=None)
@given(TEXTS)
def test_lengths_and_offsets(bits: int, texts: list[bytes]) -> None:
    offsets, _ = arrow(texts, bits)
    assert kernels.longest_value(offsets, len(texts), bits) == max(map(len, texts))
    rebased = kernels.rebase_offsets(offsets, len(texts), bits)
    assert bytes(memoryview(rebased)) == values.arrow_offsets(texts, bits)


WORDS = [b"lance", b"https://", b" column", b"\xff\x00", b"a", b"ab", b"abc", b"of text"]
LINES = st.lists(
    st.lists(st.sampled_from(WORDS) | st.binary(max_size=3), max_size=12).map(b"".join),
    min_size=1,
    max_size=80,
)


@pytest.mark.parametrize("bits", [32, 64])
@settings(deadline=None)
@given(LINES)
def test_symbols_stand_for_the_text_they_were_made_of(bits: int, texts: list[bytes]) -> None:
    source = (*arrow(texts, bits), len(texts), bits)
    table = kernels.train_symbols(*source, SAMPLE)
    assert bytes(memoryview(table)) == bytes(memoryview(kernels.train_symbols(*source, SAMPLE)))
    symbols = symbols_of(bytes(memoryview(table)))
    assert fsst.symbol_table(symbols) == bytes(memoryview(table))
    assert len(set(symbols)) == len(symbols) <= 255
    offsets, codes = kernels.compress_symbols(table, *source)
    coded = inputs.texts(offsets, codes, bits)
    assert [fsst.decode(code, symbols) for code in coded] == texts
    assert [len(code) for code in coded] <= [2 * len(text) for text in texts]
    expanded = kernels.expand_symbol_values(SymbolTable(table), offsets, codes, len(texts), bits)
    assert inputs.texts(*expanded, bits) == texts


def symbols_of(table: bytes) -> list[bytes]:
    count = table[0]
    lengths = table[8 + 8 * count : 8 + 9 * count]
    return [table[8 + 8 * i : 8 + 8 * i + length] for i, length in enumerate(lengths)]


def test_symbols_make_repeating_text_small() -> None:
    rng = random.Random(1)
    texts = [b" ".join(rng.choice(WORDS) for _ in range(12)) for _ in range(2_000)]
    source = (*arrow(texts, 32), len(texts), 32)
    table = kernels.train_symbols(*source, SAMPLE)
    _, codes = kernels.compress_symbols(table, *source)
    assert len(codes) < 0.35 * sum(map(len, texts))
    coded_bytes, sample_bytes = kernels.try_symbols(table, *source, SAMPLE)
    assert coded_bytes / sample_bytes == pytest.approx(len(codes) / sum(map(len, texts)), rel=0.1)


def test_a_table_of_others_may_be_used() -> None:
    symbols = [bytes([i]) * (i % 8 + 1) for i in range(255)]
    texts = [b"\1\1", b"", b"\7" * 30, b"\xff\xfe" * 9, b"\2\2\2\2\1"]
    source = (*arrow(texts, 32), len(texts), 32)
    offsets, codes = kernels.compress_symbols(fsst.symbol_table(symbols), *source)
    assert [fsst.decode(code, symbols) for code in inputs.texts(offsets, codes, 32)] == texts


ENTRIES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.binary(max_size=9)), min_size=1, max_size=30
)


@settings(deadline=None)
@given(ENTRIES, st.booleans())
def test_zipped_entries_are_those_of_the_twin(drawn: list[tuple[bool, int, bytes]], has_rep: bool) -> None:
    """Definition level 1 is a null value, 2 an entry without one."""
    reps = [1 if begins or not i else 0 for i, (begins, _, _) in enumerate(drawn)]
    defs = [level for _, level, _ in drawn]
    texts = [text for _, level, text in drawn if level <= 1]
    rep = inputs.u16(reps, 1) if has_rep else None
    bits = (1, 2) if has_rep else (0, 2)
    entries = [
        (rep_ if has_rep else 0, def_, text if def_ == 0 else None)
        for rep_, (_, def_, text) in zip(reps, drawn, strict=True)
    ]
    data, index = kernels.zip_variable(
        *arrow(texts, 32), len(texts), 32, rep, inputs.u16(defs, 1), *bits, 1, 1
    )
    assert bytes(memoryview(data)) == values.zip_entries(entries, *bits, 32)
    width = len(index) // (sum(reps) + 1 if has_rep else len(drawn) + 1)
    begins = [
        sum(len(values.zip_entries([e], *bits, 32)) for e in entries[:i]) for i in range(len(drawn) + 1)
    ]
    expected = [at for at, rep_ in zip(begins, reps, strict=False) if rep_ or not has_rep] + [begins[-1]]
    assert inputs.numbers(index, f"<u{width}") == expected

    fixed = [text.ljust(9, b"\0") for text in texts]
    left = iter(fixed)
    entries = [(rep_, def_, next(left) if def_ <= 1 else None) for rep_, def_, _ in entries]
    data, _ = kernels.zip_fixed(
        inputs.place(b"".join(fixed), 1), 9, len(fixed), rep, inputs.u16(defs), *bits, 1, 1
    )
    assert bytes(memoryview(data)) == values.zip_entries(entries, *bits)


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(0, 2**32))
def test_rows_are_put_together(n: int, seed: int) -> None:
    rng = random.Random(seed)
    widths = [1, 3, 8]
    columns = [[rng.randbytes(width) for _ in range(n)] for width in widths]
    joined = kernels.interleave_rows([inputs.place(b"".join(c), 1) for c in columns], widths, n)
    assert bytes(memoryview(joined)) == b"".join(b"".join(row) for row in zip(*columns, strict=True))

    texts = [rng.randbytes(rng.randrange(5)) for _ in range(n)]
    valid = [rng.random() < 0.7 for _ in range(n)]
    offsets, text = arrow(texts, 32)
    rows = kernels.join_variable_rows(
        [(3, 0, None, inputs.place(b"".join(columns[1]))), (0, 32, offsets, text)],
        n,
        inputs.bitmap([True, True, *valid]),
        2,
    )
    expected = [
        fixed + len(value).to_bytes(4, "little") + value if keep else b""
        for fixed, value, keep in zip(columns[1], texts, valid, strict=True)
    ]
    assert inputs.texts(*rows, 64) == expected


OFFSETS = values.integers([0, 4, 2], 32)


@each_case(
    "kernel",
    [
        lambda: kernels.chunk_variable(OFFSETS, b"1234", 2, 32, 100, 16),
        lambda: kernels.chunk_variable(OFFSETS[:8], b"123", 1, 32, 100, 16),
        lambda: kernels.chunk_variable(OFFSETS[:8], b"1234", 2, 32, 100, 16),
        lambda: kernels.longest_value(OFFSETS[:8], 2, 32),
        lambda: kernels.rebase_offsets(OFFSETS[:8], 2, 32),
        lambda: kernels.train_symbols(OFFSETS, b"1234", 2, 32, SAMPLE),
        lambda: kernels.compress_symbols(fsst.symbol_table([b"a"]), OFFSETS, b"1234", 2, 32),
        lambda: kernels.compress_symbols(fsst.symbol_table([b"a"], codes=False), OFFSETS[:8], b"1234", 1, 32),
        lambda: kernels.compress_symbols(b"short", OFFSETS[:8], b"1234", 1, 32),
        lambda: kernels.zip_fixed(b"123", 2, 2, None, None, 0, 0, 0, 0),
        lambda: kernels.zip_fixed(b"1234", 2, 2, None, bytes(6), 0, 1, 0, 0),
        lambda: kernels.zip_fixed(b"1234", 2, 2, bytes(4), bytes(6), 1, 1, 0, 0),
        lambda: kernels.zip_fixed(b"1234", 2, 2, None, b"\0\0\3\0", 0, 1, 3, 0),
        lambda: kernels.zip_variable(OFFSETS, b"1234", 2, 32, None, None, 0, 0, 0, 0),
        lambda: kernels.interleave_rows([b"12", b"3"], [1, 1], 2),
        lambda: kernels.interleave_rows([b"12"], [1, 1], 2),
        lambda: kernels.join_variable_rows([(2, 0, None, b"123")], 2, None, 0),
        lambda: kernels.join_variable_rows([(0, 32, OFFSETS, b"1234")], 2, None, 0),
        lambda: kernels.join_variable_rows([(1, 0, None, b"12")], 2, b"", 0),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(kernel: object) -> None:
    with pytest.raises(CorruptData):
        kernel()  # type: ignore[operator]


ALIKE = st.lists(st.sampled_from((b"a", b"b")), max_size=24).map(b"".join)
"""Values that differ in few places."""


@settings(deadline=None)
@given(
    st.lists(st.none() | st.binary(max_size=12) | ALIKE, max_size=200),
    st.sampled_from((0, 32, 64)),
    st.sampled_from((1, 3, 8, 12, 16, 24)),
)
def test_items_are_numbered_as_they_come(drawn: list[bytes | None], bits: int, width: int) -> None:
    """With `bits` 0, values of one width."""
    plain = [value or b"" for value in drawn]
    values_ = plain if bits else [value[:width].ljust(width, b"\0") for value in plain]
    offsets, data = arrow(values_, bits) if bits else (None, inputs.place(b"".join(values_), 1))
    validity = inputs.bitmap([True, *(value is not None for value in drawn)])
    width = 0 if bits else width
    first: dict[bytes, int] = {}
    for i, (value, kept) in enumerate(zip(drawn, values_, strict=True)):
        if value is not None:
            first.setdefault(kept, i)
    numbers = {value: number for number, value in enumerate(first)}
    found = kernels.find_distinct(offsets, data, bits, width, len(drawn), validity, 1, len(first))
    assert found is not None
    assert found[1] == list(first.values())
    expected: list[int] = []  # a null repeats the number before it, of the same 1024
    for value, kept in zip(drawn, values_, strict=True):
        expected.append((expected or [0])[-1] if value is None else numbers[kept])
    assert inputs.numbers(found[0], "<u4") == expected
    if first:
        arguments = (offsets, data, bits, width, len(drawn), validity, 1)
        assert kernels.find_distinct(*arguments, len(first) - 1) is None
        for step, most in ((1, 1000), (2, 5), (7, 1000)):
            sample = [
                kept
                for value, kept in list(zip(drawn, values_, strict=True))[::step][:most]
                if value is not None
            ]
            assert kernels.sample_distinct(*arguments, step, most) == (len(sample), len(set(sample)))


def test_many_items_are_found() -> None:
    texts = [b"%d" % (x * x % 60_000) for x in range(50_000)]
    found = kernels.find_distinct(*arrow(texts, 32), 32, 0, len(texts), None, 0, 100_000)
    assert found is not None
    indices, first = found
    assert len(first) == len(set(texts))
    assert [texts[first[index]] for index in inputs.numbers(indices, "<u4")] == texts


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: kernels.find_distinct(OFFSETS, b"1234", 32, 0, 2, None, 0, 9),
        lambda: kernels.find_distinct(OFFSETS[:8], b"1234", 32, 0, 2, None, 0, 9),
        lambda: kernels.find_distinct(None, b"123", 0, 2, 2, None, 0, 9),
        lambda: kernels.find_distinct(None, b"", 0, 0, 2, None, 0, 9),
        lambda: kernels.find_distinct(None, b"1234", 0, 2, 2, b"\1", 7, 9),
        lambda: kernels.find_distinct(None, b"1234", 0, 2, 2, None, 0, 1 << 40),
        lambda: kernels.sample_distinct(OFFSETS, b"1234", 32, 0, 2, None, 0, 1, 9),
        lambda: kernels.sample_distinct(None, b"123", 0, 2, 2, None, 0, 1, 9),
        lambda: kernels.sample_distinct(None, b"1234", 0, 2, 2, None, 0, 0, 9),
    ],
)
def test_distinct_values_of_sizes_that_contradict_each_other(kernel: object) -> None:
    with pytest.raises(CorruptData):
        kernel()  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["a value of some length {}", "the quick brown fox jumps over {}", "some text with a number {}"]
)
def test_what_all_texts_have_in_common_takes_few_codes(text: str) -> None:
    """Symbols that share a slot of the hash, or that were counted twice, kept others out."""
    texts = [text.format(number).encode() for number in range(20_000)]
    values_ = (*arrow(texts, 32), len(texts), 32)
    _, codes = kernels.compress_symbols(kernels.train_symbols(*values_, 32 << 10), *values_)
    assert len(codes) < 7 * len(texts)
