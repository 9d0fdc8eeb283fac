"""Pages that the format allows and the reference reads, but never writes: both read them alike.

Each page is put together by hand. The reference reads it first, so that the page itself is known to be right.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import lance
import lz4.block
import numpy as np
import pyarrow as pa
import pytest
import zstandard

import lance_core
from lance_core.proto import encodings_v2_1_pb2 as pb
from support.files.handmade import (
    Chunk,
    HandmadePage,
    flat,
    fsst,
    general,
    inline_bitpacking,
    mini_block_page,
    out_of_line_bitpacking,
    rle,
    variable,
    write_handmade,
)
from support.oracles.comparison import assert_tables_equal
from support.tables.reference import FILE_VERSIONS
from support.twins.fsst import encode, symbol_table
from support.twins.packing import pack_inline, pack_out_of_line

LZ4, ZSTD = pb.COMPRESSION_ALGORITHM_LZ4, pb.COMPRESSION_ALGORITHM_ZSTD
ALL_VALID_ITEM, NULLABLE_ITEM, ALL_VALID_LIST = 1, 3, 2
BOTH = FILE_VERSIONS


def _split(values: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Pieces of the sizes; the rest in pieces of the last size."""
    ends = list(np.cumsum(sizes))
    while ends[-1] < len(values):
        ends.append(ends[-1] + sizes[-1])
    return np.split(values, ends[:-1])


def _flat_page(version: str, values: np.ndarray, chunk: int, **fields: object) -> HandmadePage:
    chunks = [Chunk(len(piece), (piece.tobytes(),)) for piece in _split(values, [chunk])]
    return mini_block_page(version, chunks, flat(8 * values.itemsize), len(values), **fields)


def _numbers(count: int) -> np.ndarray:
    return (np.arange(count) * 2_654_435_761 % 2**31).astype("<i4")


def _text_chunk(texts: Sequence[bytes], gap: bytes = b"") -> bytes:
    start = 4 * (len(texts) + 1) + len(gap)
    offsets = start + np.cumsum([0, *map(len, texts)])
    body = offsets.astype("<u4").tobytes() + gap + b"".join(texts)
    return body + b"\x48" * (-len(body) % 4)


def _text_block(texts: Sequence[bytes]) -> bytes:
    offsets = np.cumsum([0, *map(len, texts)]).astype("<u4").tobytes()
    return struct.pack("<II", 32, 8 + len(offsets)) + offsets + b"".join(texts)


def _compressed(scheme: int, data: bytes, *, prefix: bool = True) -> bytes:
    if scheme == LZ4:
        return struct.pack("<I", len(data)) + lz4.block.compress(data, store_size=False)
    frame = zstandard.ZstdCompressor().compress(data)
    return struct.pack("<Q", len(data)) + frame if prefix else frame


Made = tuple[pa.Array, HandmadePage]
PAGES: list[object] = []


def page(*versions: str) -> Callable[[Callable[[str], Made]], Callable[[str], Made]]:
    """Register a function that makes (expected values, page) for a version."""

    def register(make: Callable[[str], Made]) -> Callable[[str], Made]:
        name = make.__name__.removeprefix("_")
        PAGES.extend(pytest.param(make, version, id=f"{version}-{name}") for version in versions)
        return make

    return register


def _page_of_chunks(chunk: int, count: int, *versions: str) -> None:
    @page(*versions)
    def flat_chunks(version: str) -> Made:
        values = _numbers(count)
        return pa.array(values), _flat_page(version, values, chunk)

    PAGES[-len(versions) :] = [
        pytest.param(flat_chunks, version, id=f"{version}-flat_chunks_of_{chunk}") for version in versions
    ]


for _size in (2, 64, 2_048, 4_096):
    _page_of_chunks(_size, 3 * _size + 1, *BOTH)
_page_of_chunks(32_768, 70_000, "2.2")


@page("2.2")
def _last_chunk_of_100_000(version: str) -> Made:
    values = _numbers(100_000)
    return pa.array(values), mini_block_page(
        version, [Chunk(100_000, (values.tobytes(),))], flat(32), 100_000
    )


@page(*BOTH)
def _last_chunk_with_its_exponent(version: str) -> Made:
    values = _numbers(128)
    pieces = _split(values, [64])
    chunks = [Chunk(64, (piece.tobytes(),), exponent=6) for piece in pieces]
    return pa.array(values), mini_block_page(version, chunks, flat(32), 128)


@page(*BOTH)
def _bools_in_chunks_of_two(version: str) -> Made:
    values = np.arange(11) % 3 == 0
    chunks = [
        Chunk(len(piece), (np.packbits(piece, bitorder="little").tobytes(),)) for piece in _split(values, [2])
    ]
    return pa.array(values), mini_block_page(version, chunks, flat(1), len(values))


def _nullable(
    version: str, encode_levels: Callable[[np.ndarray], bytes], encoding: pb.CompressiveEncoding
) -> Made:
    count, size = 2_500, 1_024
    values, nulls = _numbers(count), np.arange(count) % 7 == 3
    chunks = [
        Chunk(len(piece), (piece.tobytes(),), def_=encode_levels(levels.astype("<u2")), levels=len(piece))
        for piece, levels in zip(_split(values, [size]), _split(nulls, [size]), strict=True)
    ]
    made = mini_block_page(version, chunks, flat(32), count, layers=[NULLABLE_ITEM], def_compression=encoding)
    return pa.array(values, mask=nulls), made


@page(*BOTH)
def _levels_flat(version: str) -> Made:
    return _nullable(version, lambda levels: levels.tobytes(), flat(16))


@page(*BOTH)
def _levels_inline(version: str) -> Made:
    return _nullable(version, lambda levels: pack_inline(levels.tolist(), 16), inline_bitpacking(16))


@page(*BOTH)
def _levels_out_of_line_with_raw_tails(version: str) -> Made:
    def encode_levels(levels: np.ndarray) -> bytes:
        return pack_out_of_line(levels.tolist(), 16, 1, raw_tail=True)

    return _nullable(version, encode_levels, out_of_line_bitpacking(16, 1))


@page(*BOTH)
def _levels_rle(version: str) -> Made:
    def encode_levels(levels: np.ndarray) -> bytes:
        return struct.pack("<Q", levels.nbytes) + levels.tobytes() + b"\x01" * len(levels)

    return _nullable(version, encode_levels, rle(16))


@page(*BOTH)
def _levels_zstd(version: str) -> Made:
    return _nullable(version, lambda levels: _compressed(ZSTD, levels.tobytes()), general(ZSTD, flat(16)))


@page(*BOTH)
def _levels_that_no_layer_needs(version: str) -> Made:
    values = _numbers(100)
    chunk = Chunk(100, (values.tobytes(),), def_=bytes(200), levels=100)
    made = mini_block_page(version, [chunk], flat(32), 100, def_compression=flat(16))
    return pa.array(values), made


@page(*BOTH)
def _nullable_layer_without_levels(version: str) -> Made:
    values = _numbers(100)
    return pa.array(values), _flat_page(version, values, 64, layers=[NULLABLE_ITEM])


@page(*BOTH)
def _texts_behind_a_gap(version: str) -> Made:
    texts = [b"ab", b"", b"cde", b"fghij"]
    chunks = [Chunk(2, (_text_chunk(texts[:2], b"gap!"),)), Chunk(2, (_text_chunk(texts[2:]),))]
    return pa.array([text.decode() for text in texts]), mini_block_page(version, chunks, variable(), 4)


@page("2.2")
def _texts_in_a_chunk_of_32768(version: str) -> Made:
    texts = [b"text %d" % number for number in range(40_000)]
    chunks = [Chunk(32_768, (_text_chunk(texts[:32_768]),)), Chunk(7_232, (_text_chunk(texts[32_768:]),))]
    made = mini_block_page(version, chunks, variable(), len(texts))
    return pa.array([text.decode() for text in texts]), made


def _compressed_texts(version: str, scheme: int, *, prefix: bool) -> Made:
    texts = [b"again and again %d" % (number % 5) for number in range(300)]
    pieces = [texts[:256], texts[256:]]
    chunks = [Chunk(len(p), (_compressed(scheme, _text_chunk(p), prefix=prefix),)) for p in pieces]
    made = mini_block_page(version, chunks, general(scheme, variable()), len(texts))
    return pa.array([text.decode() for text in texts]), made


@page(*BOTH)
def _texts_lz4(version: str) -> Made:
    return _compressed_texts(version, LZ4, prefix=True)


@page(*BOTH)
def _texts_zstd_with_a_size(version: str) -> Made:
    return _compressed_texts(version, ZSTD, prefix=True)


@page(*BOTH)
def _texts_zstd_as_a_bare_frame(version: str) -> Made:
    return _compressed_texts(version, ZSTD, prefix=False)


def _fsst_texts(version: str, *, codes: bool) -> Made:
    symbols = [b"https://", b"example", b".com/", b"item", b"a", b"/", b"0"]
    texts = [b"https://example.com/item/%d" % number for number in range(200)]
    stored = [encode(text, symbols) if codes else text for text in texts]
    chunks = [Chunk(128, (_text_chunk(stored[:128]),)), Chunk(72, (_text_chunk(stored[128:]),))]
    made = mini_block_page(version, chunks, fsst(symbol_table(symbols, codes=codes)), len(texts))
    return pa.array([text.decode() for text in texts]), made


@page(*BOTH)
def _fsst_with_chosen_symbols(version: str) -> Made:
    return _fsst_texts(version, codes=True)


@page(*BOTH)
def _fsst_switched_off(version: str) -> Made:
    return _fsst_texts(version, codes=False)


@page(*BOTH)
def _bit_packed_in_zstd(version: str) -> Made:
    values = _numbers(1_500) % 4_000
    chunks = [
        Chunk(len(piece), (_compressed(ZSTD, pack_inline(piece.tolist(), 32)),))
        for piece in _split(values, [1_024])
    ]
    return pa.array(values), mini_block_page(version, chunks, general(ZSTD, inline_bitpacking(32)), 1_500)


@pytest.mark.parametrize("width", [0, 32])
@pytest.mark.parametrize("version", BOTH)
def test_bit_packed_to_no_and_to_all_bits(version: str, width: int, tmp_path: Path) -> None:
    values = _numbers(1_030) if width else np.zeros(1_030, "<i4")
    chunks = [
        Chunk(len(piece), (pack_inline(piece.tolist(), 32, width),)) for piece in _split(values, [1_024])
    ]
    _check(
        pa.array(values), mini_block_page(version, chunks, inline_bitpacking(32), 1_030), version, tmp_path
    )


def _runs(version: str, *, overshoot: int, scheme: int | None = None) -> Made:
    values = np.repeat(np.array([5, 6, 0], "<i4"), [400, 12, 100])
    stored = np.array([5, 5, 6, 0], "<i4").tobytes()
    lengths = bytes([255, 145, 12, 100 + overshoot])
    encoding = rle(32)
    if scheme is not None:
        stored, encoding = _compressed(scheme, stored), general(scheme, encoding)
    chunk = Chunk(len(values), (stored, lengths))
    return pa.array(values), mini_block_page(version, [chunk], encoding, len(values))


@page(*BOTH)
def _runs_plain(version: str) -> Made:
    return _runs(version, overshoot=0)


@page(*BOTH)
def _runs_that_overshoot_their_chunk(version: str) -> Made:
    return _runs(version, overshoot=20)


@page(*BOTH)
def _runs_in_lz4(version: str) -> Made:
    return _runs(version, overshoot=0, scheme=LZ4)


def _dictionary(
    version: str, width: int, block: bytes, encoding: pb.CompressiveEncoding, values: list[object]
) -> Made:
    indices = (np.arange(1_000) * 7 % len(values)).astype(f"<u{width // 8}")
    made = _flat_page(
        version,
        indices,
        512,
        extra_buffers=[block],
        dictionary=encoding,
        num_dictionary_items=len(values),
    )
    return pa.array([values[index] for index in indices]), made


TEXTS = [b"red", b"", b"green", b"a longer colour"]


@page(*BOTH)
def _dictionary_with_indices_of_8_bits(version: str) -> Made:
    return _dictionary(version, 8, _text_block(TEXTS), variable(), [text.decode() for text in TEXTS])


@page(*BOTH)
def _dictionary_with_indices_of_16_bits(version: str) -> Made:
    return _dictionary(version, 16, _text_block(TEXTS), variable(), [text.decode() for text in TEXTS])


@page(*BOTH)
def _dictionary_in_zstd(version: str) -> Made:
    block = _compressed(ZSTD, _text_block(TEXTS))
    return _dictionary(version, 32, block, general(ZSTD, variable()), [text.decode() for text in TEXTS])


@page(*BOTH)
def _dictionary_of_packed_numbers(version: str) -> Made:
    numbers = [number * 3 for number in range(500)]
    return _dictionary(version, 32, pack_inline(numbers, 64), inline_bitpacking(64), numbers)


@page(*BOTH)
def _dictionary_of_numbers_packed_out_of_line(version: str) -> Made:
    numbers = [number * 3 % 2**12 for number in range(1_300)]
    block = pack_out_of_line(numbers, 64, 12, raw_tail=False)
    return _dictionary(version, 32, block, out_of_line_bitpacking(64, 12), numbers)


@page(*BOTH)
def _dictionary_of_runs(version: str) -> Made:
    block = struct.pack("<Q2q", 16, 11, 12) + bytes([3, 2])
    return _dictionary(version, 32, block, rle(64), [11, 11, 11, 12, 12])


def _list_page(version: str, chunk: int) -> Made:
    lengths = [3, 7, 1, 1, 40, 2, 1]
    values = _numbers(sum(lengths))
    starts = np.cumsum([0, *lengths[:-1]])
    rep = np.zeros(len(values), "<u2")
    rep[starts] = 1
    chunks, index, first = [], b"", 0
    for piece, levels in zip(_split(values, [chunk]), _split(rep, [chunk]), strict=True):
        end = first + len(piece)
        closed = end == len(values) or rep[end] == 1
        begun = starts[(starts >= first) & (starts < end)]
        ended = sum(first < start + length <= end for start, length in zip(starts, lengths, strict=True))
        left = 0 if closed else end - max([first, *begun])
        index += struct.pack("<QQ", ended, left)
        chunks.append(Chunk(len(piece), (piece.tobytes(),), rep=levels.tobytes(), levels=len(piece)))
        first = end
    made = mini_block_page(
        version,
        chunks,
        flat(32),
        len(lengths),
        layers=[ALL_VALID_ITEM, ALL_VALID_LIST],
        extra_buffers=[index],
        rep_compression=flat(16),
        repetition_index_depth=1,
    )
    offsets = pa.array([*starts, len(values)], pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values)), made


@page(*BOTH)
def _lists_across_chunks_of_4(version: str) -> Made:
    return _list_page(version, 4)


@page(*BOTH)
def _lists_across_chunks_of_16(version: str) -> Made:
    return _list_page(version, 16)


def _full_zip_page(bits: int, data: bytes, index: bytes, rows: int) -> HandmadePage:
    layout = pb.PageLayout()
    body = layout.full_zip_layout
    body.bits_def, body.bits_per_offset = 1, bits
    body.num_items = body.num_visible_items = rows
    body.value_compression.CopyFrom(variable(bits))
    body.layers.append(NULLABLE_ITEM)
    return HandmadePage(layout, (data, index), rows)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("version", BOTH)
def test_full_zip_with_every_width_of_the_index(version: str, width: int, tmp_path: Path) -> None:
    texts = [b"ab", None, b"", b"cde", None, b"x" * 40]
    data, starts = b"", [0]
    for text in texts:
        data += b"\x01" if text is None else b"\x00" + struct.pack("<I", len(text)) + text
        starts.append(len(data))
    index = np.array(starts, f"<u{width}").tobytes()
    expected = pa.array([None if text is None else text.decode() for text in texts])
    _check(expected, _full_zip_page(32, data, index, len(texts)), version, tmp_path)


def _check(expected: pa.Array, made: HandmadePage, version: str, folder: Path) -> None:
    """The page alone, and after a copy of itself; all rows, and ranges that begin and end inside."""
    field = pa.field("c", expected.type)
    for copies in (1, 2):
        path = folder / f"{copies}.lance"
        write_handmade(path, field, version, [made] * copies)
        table = pa.table([pa.concat_arrays([expected] * copies)], pa.schema([field]))
        reference = lance.dataset(str(path)).to_table()
        assert_tables_equal(table, reference, label="what the reference reads")
        opened = lance_core.dataset(str(path))
        assert_tables_equal(reference, opened.to_table())
        rows = table.num_rows
        for start, end in ((1, rows), (0, rows - 1), (rows // 3, rows // 2 + 1), (rows - 1, rows)):
            found = opened.to_table(offset=start, limit=end - start)
            assert_tables_equal(table.slice(start, end - start), found, label=f"rows {start} to {end}")


@pytest.mark.parametrize(("make", "version"), PAGES)
def test_pages_that_the_reference_reads(make: Callable[[str], Made], version: str, tmp_path: Path) -> None:
    expected, made = make(version)
    _check(expected, made, version, tmp_path)
