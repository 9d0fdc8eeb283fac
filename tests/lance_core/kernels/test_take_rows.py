"""Single rows out of chunks in files, of many columns at once; beside the values that were put there."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

import lz4.block
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import ColumnPages, CorruptData, MiniBlocks, PieceReader, SymbolTable
from support.draws import draws
from support.twins import fsst, inputs, packing, values

SYMBOLS = [bytes([i]) * (i % 8 + 1) for i in range(200)]
ITEMS = [b"red", b"", b"blue", b"a long item " * 5]
NUMBERS = [7, 0, 1 << 40, (1 << 62) + 1]
"""Dictionary items of 64 bits each."""
WORDS = {
    "flat 1": 1,
    "flat 8": 8,
    "flat 16": 16,
    "flat 32": 32,
    "flat 64": 64,
    "flat 128": 128,
    "flat 24": 24,
}
WORDS |= {f"inline_bitpacking {bits}": bits for bits in (8, 16, 32, 64)}
WORDS |= {f"byte_stream_split {bits}": bits for bits in (32, 64)}
COMPRESSIONS = ("none", "none", "lz4", "zstd")
TEXTS = ("variable 32", "variable 64", "fsst 32", "fsst 64", "items 8", "items 16", "items 32")
LOOKED_UP = ("numbers 8", "numbers 16", "numbers 32")
LEVELS = ("none", "flat", "inline", "packed", "packed, raw tail", "runs")
NEVER = 1 << 60


@dataclass
class PageOf:
    """A page of random values: what is known of it, and its bytes."""

    coding: str
    levels: str
    found: list[object]
    counts: list[int]
    chunks: list[bytes]
    large: bool
    compression: str

    def pages(self, position: int) -> MiniBlocks:
        """Return the page where its chunks begin at a place of a file."""
        name, bits = self.coding.split()
        lengths = list(map(len, self.chunks))
        items = None
        if name == "items":
            items = values.arrow_offsets(ITEMS, 32), b"".join(ITEMS), len(ITEMS), 32
        elif name == "numbers":
            items = None, values.integers(NUMBERS, 64), len(NUMBERS), 64
        if items is not None:
            name = "flat" if bits == "8" else "inline_bitpacking"
        return MiniBlocks(
            num_rows=sum(self.counts),
            positions=inputs.int64s([position + begin for begin in accumulate(lengths[:-1], initial=0)]),
            lengths=inputs.int64s(lengths),
            first_values=inputs.int64s([*accumulate(self.counts, initial=0)]),
            large=self.large,
            compression=self.compression,
            coding=name,
            bits=int(bits),
            def_=None
            if self.levels == "none"
            else (self.levels.split(",")[0], 2 if "packed" in self.levels else 0),
            max_def=2,
            has_nulls=self.levels != "none",
            symbols=SymbolTable(fsst.symbol_table(SYMBOLS)) if name == "fsst" else None,
            items=items,
        )


def random_page(rng: random.Random, coding: str, levels: str, most: int = 150) -> PageOf:
    name, bits = coding.split()
    counts = [rng.choice((2, 64)) for _ in range(rng.randint(0, 2))] + [rng.randint(1, most)]
    large = rng.random() < 0.5
    compression = rng.choice(COMPRESSIONS)
    found: list[object] = []
    chunks = []
    for count in counts:
        stored, data = random_values(rng, name, int(bits), count)
        levels_of = [rng.choice((0, 0, 1, 2)) for _ in range(count)]
        encoded = {
            "none": lambda of: None,
            "flat": lambda of: values.integers(of, 16),
            "inline": lambda of: packing.pack_inline(of, 16),
            "packed": lambda of: packing.pack_out_of_line(of, 16, 2, raw_tail=False),
            "packed, raw tail": lambda of: packing.pack_out_of_line(of, 16, 2, raw_tail=True),
            "runs": lambda of: values.run_block(of, 16),
        }[levels](levels_of)
        is_null = [levels != "none" and level > 0 for level in levels_of]
        found += [None if null else value for null, value in zip(is_null, stored, strict=True)]
        num_levels = 0 if levels == "none" else count
        data = compressed(data, compression)
        chunk = values.chunk([data], num_levels=num_levels, def_=encoded, large=large)
        chunks.append(chunk + b"\0" * (-len(chunk) % 8))
    return PageOf(coding, levels, found, counts, chunks, large, compression)


def compressed(data: bytes, compression: str) -> bytes:
    """Return a value buffer as a chunk keeps it."""
    if compression == "lz4":
        return bytes(lz4.block.compress(data, store_size=True))
    if compression == "zstd":
        return len(data).to_bytes(8, "little") + zstandard.compress(data)
    return data


def random_values(rng: random.Random, name: str, bits: int, count: int) -> tuple[Sequence[object], bytes]:
    """Values, and the buffer of a chunk that holds them."""
    if name in ("items", "numbers"):
        items: Sequence[object] = ITEMS if name == "items" else NUMBERS
        indices = [rng.randrange(len(items)) for _ in range(count)]
        data = values.integers(indices, 8) if bits == 8 else packing.pack_inline(indices, bits)
        return [items[index] for index in indices], data
    if name in ("variable", "fsst"):
        texts = [rng.randbytes(rng.choice((0, 1, 7, 30))) for _ in range(count)]
        coded = [fsst.encode(text, SYMBOLS) for text in texts] if name == "fsst" else texts
        return texts, values.variable_chunk(coded, bits, gap=rng.choice((0, 3)))
    width = rng.randint(0, bits)
    numbers = [rng.getrandbits(width) if width else 0 for _ in range(count)]
    if name == "inline_bitpacking":
        return numbers, packing.pack_inline(numbers, bits, width)
    if name == "byte_stream_split":
        return numbers, b"".join(
            values.integers(numbers, bits)[byte :: bits // 8] for byte in range(bits // 8)
        )
    if bits == 1:
        return numbers, inputs.bitmap([number == 1 for number in numbers])
    return numbers, values.integers(numbers, bits)


@contextmanager
def file_of(data: bytes, map_after: int) -> Iterator[tuple[int, PieceReader]]:
    descriptor = os.memfd_create("chunks")
    try:
        os.write(descriptor, data)
        yield descriptor, PieceReader(descriptor, len(data), 4096, map_after)
    finally:
        os.close(descriptor)


def column_of(pages: Sequence[PageOf], file: PieceReader, position: int = 0) -> ColumnPages:
    """Return a column whose pages follow each other in a file."""
    known = []
    for page in pages:
        known.append(page.pages(position))
        position += sum(map(len, page.chunks))
    starts = accumulate((sum(page.counts) for page in pages), initial=0)
    return ColumnPages(known, inputs.int64s([*starts]), file, file)


def bytes_of(pages: Sequence[PageOf]) -> bytes:
    return b"".join(chunk for page in pages for chunk in page.chunks)


Parts = Sequence[tuple[Sequence[ColumnPages], bytes, bytes | None]]


def take(coding: str, parts: Parts, num_columns: int, num_rows: int) -> list[list[object] | None]:
    """Return the values that the kernel takes of columns of one coding, as Python values."""
    taken = kernels.take_rows(parts, num_columns, num_rows)
    fields = [(str(number), type_of(coding)) for number, done in enumerate(taken.is_there) if done]
    batch = pa.RecordBatch._import_from_c(taken.address, pa.schema(fields))
    del taken
    batch.validate(full=True)
    assert batch.num_rows == num_rows
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return [spelled(coding, columns.get(str(number))) for number in range(num_columns)]


def type_of(coding: str) -> pa.DataType:
    """Return a type that shows the bytes of the values."""
    name, width = coding.split()
    if name in ("variable", "fsst", "items"):
        return pa.large_binary() if width == "64" else pa.binary()
    return pa.bool_() if width == "1" else pa.binary(8 if name == "numbers" else int(width) // 8)


def spelled(coding: str, array: pa.Array | None) -> list[object] | None:
    """Return an array as the values that were put there."""
    if array is None:
        return None
    # Arrow leaves out the validity where nothing is null, and so does the kernel.
    assert (array.buffers()[0] is None) == (array.null_count == 0)
    if pa.types.is_fixed_size_binary(array.type):
        held = array.to_pylist()
        return [None if value is None else int.from_bytes(value, "little") for value in held]
    if pa.types.is_boolean(array.type):
        return [None if value is None else int(value) for value in array.to_pylist()]
    return list(array.to_pylist())


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize("coding", [*WORDS, *TEXTS, *LOOKED_UP])
@settings(max_examples=draws(8), deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 1 << 30))
def test_rows_in_any_order(coding: str, map_after: int, levels: str, seed: int) -> None:
    """Rows of two files, some of them requested twice, from pages that store levels in different ways."""
    rng = random.Random(seed)
    most = 1024 if "packing" in coding else 150
    first = [random_page(rng, coding, levels, most), random_page(rng, coding, rng.choice(LEVELS))]
    second = [random_page(rng, coding, "none")]
    stored = [[value for page in pages for value in page.found] for pages in (first, second)]
    count = rng.randint(1, 40)
    files = [rng.randrange(2) for _ in range(count)]
    rows = [rng.randrange(len(stored[file])) for file in files]
    rows[-1] = rows[0] if files[-1] == files[0] else rows[-1]
    head = rng.randbytes(16)
    with (
        file_of(head + bytes_of(first), map_after) as (_, one),
        file_of(bytes_of(second), map_after) as (_, other),
    ):
        columns = [column_of(first, one, 16), column_of(second, other)]
        parts = [
            (
                [column, column],
                inputs.int64s([rows[k] for k in range(count) if files[k] == file]),
                inputs.int64s([k for k in range(count) if files[k] == file]),
            )
            for file, column in enumerate(columns)
        ]
        taken = take(coding, parts, 2, count)
    expected = [stored[file][row] for file, row in zip(files, rows, strict=True)]
    assert taken == [expected, expected]


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize(
    "coding", ["flat 64", "inline_bitpacking 16", "variable 32", "fsst 64", "items 16", "numbers 8"]
)
@settings(max_examples=draws(40), deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 1 << 30))
def test_changed_bytes(coding: str, map_after: int, levels: str, seed: int) -> None:
    """T22: for any bytes in the chunks, the kernel answers or refuses."""
    rng = random.Random(seed)
    page = random_page(rng, coding, levels, most=70)
    data = bytearray(bytes_of([page]))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    rows = [rng.randrange(len(page.found)) for _ in range(20)]
    with file_of(bytes(data), map_after) as (_, file):
        take(coding, [([column_of([page], file)], inputs.int64s(rows), None)], 1, len(rows))


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
def test_a_file_that_was_truncated(map_after: int) -> None:
    """T25: nothing is taken, neither zeros nor what lies behind the end, and the process lives."""
    rng = random.Random(5)
    page = random_page(rng, "flat 64", "flat", most=2000)
    while len(bytes_of([page])) < 10_000:
        page = random_page(rng, "flat 64", "flat", most=2000)
    with file_of(bytes_of([page]), map_after) as (descriptor, file):
        column = column_of([page], file)
        wanted = [([column], inputs.int64s([0, len(page.found) - 1]), None)]
        assert kernels.take_rows(wanted, 1, 2).is_there == [True]
        for length in (5000, 100, 0):
            os.truncate(descriptor, length)
            assert kernels.take_rows(wanted, 1, 2).is_there == [False]


def test_what_is_not_there() -> None:
    """T22: rows, places, columns and chunks outside what there is."""
    page = random_page(random.Random(1), "flat 32", "none")
    last = len(page.found) - 1
    with file_of(bytes_of([page]), 0) as (_, file):
        column = column_of([page], file)

        def is_taken(rows: Sequence[int], places: Sequence[int] | None, num_rows: int) -> bool:
            numbers = None if places is None else inputs.int64s(places)
            (done,) = kernels.take_rows([([column], inputs.int64s(rows), numbers)], 1, num_rows).is_there
            return done

        assert is_taken([last], None, 1)
        assert not is_taken([last + 1], None, 1)
        assert not is_taken([-1], None, 1)
        assert not is_taken([0, 0], None, 1)
        assert not is_taken([0], [1], 1)
        assert not is_taken([0], [-1], 1)
        assert not is_taken([0], [0], 2)  # a row that nobody gives
        with pytest.raises(CorruptData, match="places"):
            is_taken([0, 1], [0], 2)
        with pytest.raises(CorruptData, match="columns"):
            kernels.take_rows([([], inputs.int64s([0]), None)], 1, 1)
        behind = column_of([page], file, position=8)
        assert kernels.take_rows([([behind], inputs.int64s([last]), None)], 1, 1).is_there == [False]
        with pytest.raises(TypeError, match="None"):
            kernels.take_rows([([None], inputs.int64s([0]), None)], 1, 1)  # type: ignore[list-item]
        with pytest.raises(TypeError, match="None"):
            kernels.decode_rows([(page.pages(0), None, 0, 1)])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="None"):
            kernels.decode_rows([(None, file, 0, 1)])  # type: ignore[list-item]
        with pytest.raises(CorruptData, match="pages"):
            ColumnPages([], inputs.int64s([0]), file, file)
        with pytest.raises(CorruptData, match="page 0"):
            ColumnPages([page.pages(0)], inputs.int64s([0, -1]), file, file)


def test_pages_of_different_types() -> None:
    """T22: bytes of one page are not taken for values of another type."""
    rng = random.Random(2)
    for one, other in (("flat 32", "flat 64"), ("flat 32", "variable 32"), ("variable 32", "variable 64")):
        pages = [random_page(rng, one, "none"), random_page(rng, other, "none")]
        rows = inputs.int64s([0, len(pages[0].found)])
        with file_of(bytes_of(pages), 0) as (_, file):
            assert kernels.take_rows([([column_of(pages, file)], rows, None)], 1, 2).is_there == [False]


def test_pages_with_and_without_a_dictionary() -> None:
    rng = random.Random(3)
    pages = [random_page(rng, coding, "none") for coding in ("flat 64", "numbers 8", "numbers 16")]
    found = [value for page in pages for value in page.found]
    rows = rng.sample(range(len(found)), 20)
    with file_of(bytes_of(pages), 0) as (_, file):
        parts = [([column_of(pages, file)], inputs.int64s(rows), None)]
        assert take("flat 64", parts, 1, len(rows)) == [[found[row] for row in rows]]


@pytest.mark.parametrize("bits", [0, 4, 32, 128])
def test_items_of_another_width(bits: int) -> None:
    """T22: items that are not as many values of their width as there are bytes."""
    with pytest.raises(CorruptData, match=f"4 items of {bits} bits in 32 bytes"):
        MiniBlocks(
            1,
            inputs.int64s([0]),
            inputs.int64s([8]),
            inputs.int64s([0, 1]),
            False,
            "none",
            "flat",
            8,
            None,
            0,
            False,
            None,
            (None, values.integers(NUMBERS, 64), len(NUMBERS), bits),
        )


def test_what_nobody_imports() -> None:
    """Columns that were taken are given back with whoever has them: the object that holds them, or Arrow."""
    page = random_page(random.Random(1), "flat 32", "none")
    with file_of(bytes_of([page]), 0) as (_, file):
        wanted = [([column_of([page], file)], inputs.int64s([0] * 100_000), None)]
        before = kernels.pool_use()
        for _ in range(3):
            kernels.take_rows(wanted, 1, 100_000)
        taken = kernels.take_rows(wanted, 1, 100_000)
        batch = pa.RecordBatch._import_from_c(taken.address, pa.schema([("x", pa.int32())]))
        del taken
        assert batch.column(0).to_pylist()[-1] == page.found[0]
        del batch
        assert kernels.pool_use()[0] == before[0]
