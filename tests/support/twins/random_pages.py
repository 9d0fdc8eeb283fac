"""Random mini-block pages in files, and what `take_rows` takes of them as Python values."""

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
import zstandard

from lance_core import kernels
from lance_core.kernels import ColumnPages, MiniBlocks, PieceReader, SymbolTable
from support.processes.descriptors import kept_open
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
