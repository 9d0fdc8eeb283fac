"""Single rows out of chunks in files, of many columns at once; beside the values that were put there."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import cast

import lz4.block
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core import kernels
from lance_core.kernels import ColumnPages, CorruptData, MiniBlocks, PieceReader, SymbolTable
from support.descriptors import kept_open
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
ENCODED_LEVELS = {
    "flat": lambda of: values.integers(of, 16),
    "inline": lambda of: packing.pack_inline(of, 16),
    "packed": lambda of: packing.pack_out_of_line(of, 16, 2, raw_tail=False),
    "packed, raw tail": lambda of: packing.pack_out_of_line(of, 16, 2, raw_tail=True),
    "runs": lambda of: values.run_block(of, 16),
}
LEVELS = ("none", *ENCODED_LEVELS)
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
            num_rows=self.num_rows,
            positions=inputs.int64s([position + begin for begin in accumulate(lengths[:-1], initial=0)]),
            lengths=inputs.int64s(lengths),
            first_values=inputs.int64s([*accumulate(self.counts, initial=0)]),
            large=self.large,
            compression=self.compression,
            coding=name,
            bits=int(bits),
            def_=None if self.levels == "none" else coding_of(self.levels),
            max_def=self.max_def,
            has_nulls=self.has_nulls,
            symbols=SymbolTable(fsst.symbol_table(SYMBOLS)) if name == "fsst" else None,
            items=items,
        )

    @property
    def max_def(self) -> int:
        return 2

    @property
    def has_nulls(self) -> bool:
        """Whether values may be null."""
        return self.levels != "none"

    @property
    def num_rows(self) -> int:
        return len(self.found)


@dataclass
class ListPageOf(PageOf):
    """A page of random lists, whose entries are cut into chunks anywhere."""

    rep: str
    null: int
    empty: int
    null_item: int
    begun: list[int]
    """Rows that begin before each chunk, and the number of rows."""
    ended: list[int]
    offset_bits: int = 32

    def pages(self, position: int) -> MiniBlocks:
        pages = super().pages(position)
        depth_of = [0] * (1 + self.null_item) + [1] * (self.max_def - self.null_item)
        pages.set_lists(
            first_rows=inputs.int64s(self.begun),
            ended_rows=inputs.int64s(self.ended),
            rep=coding_of(self.rep),
            null=self.null,
            empty=self.empty,
            upper=self.max_def,
            shown=self.max_def,
            max_visible=self.null_item,
            depth_of=bytes(depth_of),
            offset_bits=self.offset_bits,
        )
        return pages

    @property
    def max_def(self) -> int:
        return max(self.null, self.empty, self.null_item)

    @property
    def has_nulls(self) -> bool:
        return self.null_item > 0


def coding_of(levels: str) -> tuple[str, int]:
    """Return the name of an encoding of levels as the kernel knows it, and the bits of a level."""
    return levels.split(",")[0], 2 if "packed" in levels else 0


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
        encoded = None if levels == "none" else ENCODED_LEVELS[levels](levels_of)
        is_null = [levels != "none" and level > 0 for level in levels_of]
        found += [None if null else value for null, value in zip(is_null, stored, strict=True)]
        num_levels = 0 if levels == "none" else count
        data = compressed(data, compression)
        chunk = values.chunk([data], num_levels=num_levels, def_=encoded, large=large)
        chunks.append(chunk + b"\0" * (-len(chunk) % 8))
    return PageOf(coding, levels, found, counts, chunks, large, compression)


def random_list_page(rng: random.Random, coding: str, levels: str, most: int = 20) -> ListPageOf:
    """Return a page of lists; `levels` encodes definition levels, "none" means that there are none."""
    name, bits = coding.split()
    null_item = 0 if levels == "none" else rng.randint(0, 1)
    kinds = [] if levels == "none" else rng.choice((["null"], ["empty"], ["null", "empty"]))
    level_of = {kind: null_item + 1 + number for number, kind in enumerate(kinds)}
    entries: list[tuple[int, int]] = []
    rows: list[int | None] = [rng.randint(1, 5)]
    rows += [rng.randint(1, 5) for _ in range(rng.randint(0, most))]
    for number in range(1, len(rows)):
        if kinds and rng.random() < 0.4:
            rows[number] = {"null": None, "empty": 0}[rng.choice(kinds)]
    for size in rows:
        if not size:
            entries.append((1, level_of["null" if size is None else "empty"]))
        else:
            entries += [(int(not item), rng.randint(0, null_item)) for item in range(size)]
    # Every chunk has a value, so a chunk ends behind one.
    values_at = [place for place, (_, level) in enumerate(entries) if level <= null_item]
    cuts = sorted(rng.sample(values_at[:-1], min(len(values_at) - 1, rng.randint(0, 3))))
    bounds = [0, *(cut + 1 for cut in cuts), len(entries)]
    rep, large, compression = rng.choice(LEVELS[1:]), rng.random() < 0.5, rng.choice(COMPRESSIONS)
    found: list[object] = []
    chunks, counts, begun, ended = [], [], [], []
    for start, end in zip(bounds, [*bounds[1:], len(entries)], strict=True):
        begun.append(sum(begins for begins, _ in entries[:start]))
        ended.append(begun[-1] - (start < len(entries) and entries[start][0] == 0))
        if start == end:
            break
        part = entries[start:end]
        counts.append(sum(level <= null_item for _, level in part))
        stored, data = random_values(rng, name, int(bits), counts[-1])
        items = iter(stored)
        for begins, level in part:
            if begins:
                found.append(None if kinds and level == level_of.get("null") else [])
            if level <= null_item:
                item = next(items)
                cast(list[object], found[-1]).append(None if level else item)
        chunk = values.chunk(
            [compressed(data, compression)],
            num_levels=len(part),
            rep=ENCODED_LEVELS[rep]([begins for begins, _ in part]),
            def_=None if levels == "none" else ENCODED_LEVELS[levels]([level for _, level in part]),
            large=large,
        )
        chunks.append(chunk + b"\0" * (-len(chunk) % 8))
    return ListPageOf(
        coding,
        levels,
        found,
        counts,
        chunks,
        large,
        compression,
        rep,
        level_of.get("null", -1),
        level_of.get("empty", -1),
        null_item,
        begun,
        ended,
    )


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
        yield descriptor, PieceReader(kept_open(descriptor), len(data), 4096, map_after)
    finally:
        os.close(descriptor)


def column_of(pages: Sequence[PageOf], file: PieceReader, position: int = 0) -> ColumnPages:
    """Return a column whose pages follow each other in a file."""
    known = []
    for page in pages:
        known.append(page.pages(position))
        position += sum(map(len, page.chunks))
    starts = accumulate((page.num_rows for page in pages), initial=0)
    return ColumnPages(known, inputs.int64s([*starts]), file)


def bytes_of(pages: Sequence[PageOf]) -> bytes:
    return b"".join(chunk for page in pages for chunk in page.chunks)


Parts = Sequence[tuple[Sequence[ColumnPages], bytes, bytes | None]]


def take(
    coding: str, parts: Parts, num_columns: int, num_rows: int, list_bits: int = 0
) -> list[list[object] | None]:
    """Return the values that the kernel takes of columns of one coding, as Python values.

    `list_bits` are the bits of an offset of lists around the values, 0 without lists.
    """
    taken = kernels.take_rows(parts, num_columns, num_rows)
    kind = type_of(coding)
    kind = {0: kind, 32: pa.list_(kind), 64: pa.large_list(kind)}[list_bits]
    fields = [(str(number), kind) for number, done in enumerate(taken.is_there) if done]
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
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        items = spelled(coding, array.values)
        assert items is not None
        ends = array.offsets.to_pylist()
        lists = [items[start:end] for start, end in pairwise(ends)]
        return [
            held if there else None for held, there in zip(lists, array.is_valid().to_pylist(), strict=True)
        ]
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
@pytest.mark.parametrize("coding", [*WORDS, *TEXTS, *LOOKED_UP])
@settings(max_examples=draws(12), deadline=None)
@given(st.sampled_from(LEVELS), st.sampled_from((32, 64)), st.integers(0, 1 << 30))
def test_lists_in_any_order(coding: str, map_after: int, levels: str, list_bits: int, seed: int) -> None:
    """Lists of two files, some of them requested twice, from pages with levels of different meanings."""
    rng = random.Random(seed)
    first = [random_list_page(rng, coding, levels), random_list_page(rng, coding, rng.choice(LEVELS))]
    second = [random_list_page(rng, coding, rng.choice(LEVELS))]
    for page in first + second:
        page.offset_bits = list_bits
    stored = [[value for page in pages for value in page.found] for pages in (first, second)]
    count = rng.randint(1, 40)
    files = [rng.randrange(2) for _ in range(count)]
    rows = [rng.randrange(len(stored[file])) for file in files]
    with (
        file_of(bytes_of(first), map_after) as (_, one),
        file_of(bytes_of(second), map_after) as (_, other),
    ):
        columns = [column_of(first, one), column_of(second, other)]
        parts = [
            (
                [column, column],
                inputs.int64s([rows[k] for k in range(count) if files[k] == file]),
                inputs.int64s([k for k in range(count) if files[k] == file]),
            )
            for file, column in enumerate(columns)
        ]
        taken = take(coding, parts, 2, count, list_bits)
    expected = [stored[file][row] for file, row in zip(files, rows, strict=True)]
    assert taken == [expected, expected]


@pytest.mark.parametrize("map_after", [0, NEVER], ids=["mapped", "read"])
@pytest.mark.parametrize("coding", ["flat 64", "inline_bitpacking 16", "variable 32", "items 16"])
@settings(max_examples=draws(60), deadline=None)
@given(st.sampled_from(LEVELS), st.integers(0, 1 << 30))
def test_changed_bytes_of_lists(coding: str, map_after: int, levels: str, seed: int) -> None:
    """T22: for any bytes in the chunks of lists, the kernel answers or refuses."""
    rng = random.Random(seed)
    page = random_list_page(rng, coding, levels)
    data = bytearray(bytes_of([page]))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 255, rng.randrange(256)))
    rows = [rng.randrange(page.num_rows) for _ in range(20)]
    with file_of(bytes(data), map_after) as (_, file):
        take(coding, [([column_of([page], file)], inputs.int64s(rows), None)], 1, len(rows), 32)


def test_lists_that_are_not_there() -> None:
    """T22: rows outside a page of lists, and pages of lists beside pages of other lists or of values."""
    rng = random.Random(4)
    page = random_list_page(rng, "flat 32", "flat")
    flat = random_page(rng, "flat 32", "flat")
    wide = random_list_page(rng, "flat 32", "flat")
    wide.offset_bits = 64
    with file_of(bytes_of([page, wide, flat]), 0) as (_, file):

        def is_taken(pages: Sequence[PageOf], rows: Sequence[int]) -> bool:
            (done,) = kernels.take_rows(
                [([column_of(pages, file)], inputs.int64s(rows), None)], 1, len(rows)
            ).is_there
            return done

        assert is_taken([page], [0, page.num_rows - 1])
        assert not is_taken([page], [page.num_rows])
        assert is_taken([page, wide], [0, 1])
        assert not is_taken([page, wide], [0, page.num_rows])
        assert not is_taken([page, wide, flat], [0, page.num_rows + wide.num_rows])
        assert not is_taken([flat, page], [0, flat.num_rows])


def test_lists_with_many_items() -> None:
    """If a call needs many items, it leaves them to the decoder of whole chunks."""
    page = random_list_page(random.Random(6), "flat 32", "flat")
    with file_of(bytes_of([page]), 0) as (_, file):
        for num_rows, is_taken in ((100, True), (5000, False)):
            wanted = [([column_of([page], file)], inputs.int64s([0] * num_rows), None)]
            assert kernels.take_rows(wanted, 1, num_rows).is_there == [is_taken]


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
            kernels.decode_rows([(page.pages(0), None, 0, 1)], [None])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="None"):
            kernels.decode_rows([(None, file, 0, 1)], [None])  # type: ignore[list-item]
        with pytest.raises(CorruptData, match="pages"):
            ColumnPages([], inputs.int64s([0]), file)
        with pytest.raises(CorruptData, match="page 0"):
            ColumnPages([page.pages(0)], inputs.int64s([0, -1]), file)


def test_pages_that_are_not_known() -> None:
    """Rows of a known page are taken, and those of an unknown page, which is named, are not."""
    rng = random.Random(8)
    for coding, lists in (("flat 32", False), ("variable 32", False), ("flat 32", True)):
        pages = [
            random_list_page(rng, coding, "none") if lists else random_page(rng, coding, "none")
            for _ in range(3)
        ]
        first, second, third = (page.num_rows for page in pages)
        starts = inputs.int64s([0, first, first + second, first + second + third])
        with file_of(bytes_of(pages), 0) as (_, file):
            known = column_of(pages, file).pages
            column = ColumnPages([None, known[1], None], starts, file)
            for rows, unknown in (
                ([first, first + second - 1], []),
                ([first, 0], [0]),
                ([first + second, first, 0, first + second], [0, 2]),
                ([-1, first + second + third], []),
            ):
                assert column.unknown(inputs.int64s(rows)) == unknown
            for rows, is_taken in (([first], True), ([0], False), ([first, first + second], False)):
                wanted = [([column], inputs.int64s(rows), None)]
                assert kernels.take_rows(wanted, 1, len(rows)).is_there == [is_taken]
            nothing = ColumnPages([None] * 3, starts, file)
            assert kernels.take_rows([([nothing], inputs.int64s([0]), None)], 1, 1).is_there == [False]


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
