"""Every kernel that reads bytes of a file, on valid input that was cut or changed.

Each kernel gets each prefix of its input, and its input with bytes replaced. It may answer or refuse; any
other error, and any access outside the input that the sanitizer build sees, is a defect.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lz4.block
import pytest
import zstandard

from lance_core import kernels
from lance_core.kernels import SymbolTable
from support.twins import fsst, inputs, kernel_runs, packing, values
from support.twins.kernel_runs import (
    ARRAY,
    CODES,
    JSON_TRUTHS,
    SYMBOLS,
    TEXT,
    block,
    chunks,
    coded,
    copied_rows,
    count,
    decoded_rows,
    flat_rows,
    halves,
    header_and_values,
    json_container,
    json_scalars,
    json_texts,
    json_values,
    levels_of_lists,
    lists,
    matched_flat_rows,
    matched_rows,
    one,
    picked_rows,
    pieces,
    row_sets,
    small_file,
    small_file_of_arrays,
    two,
    two_files,
)

RNG = random.Random(20)


@dataclass
class Case:
    """A kernel as a function of the bytes that a file would hold."""

    run: Callable[[memoryview], object]
    data: bytes


PROSE = " ".join(RNG.choices(["river", "stone", "north", "light"], k=500)).encode()
NUMBERS = b"".join(RNG.randrange(1000).to_bytes(8, "little") for _ in range(500))
INTS = struct.pack("<4i", *range(4))
LZ4_INTS = lz4.block.compress(INTS, store_size=True)
ZSTD_INTS = len(INTS).to_bytes(8, "little") + zstandard.compress(INTS)
PICKS = inputs.int64s([0, 3, 4, 7])
TWENTY = inputs.place(bytes(range(20)))
ROWS = [b"\1\2\3\4" + b"\3\0\0\0abc", b"", b"\1\2\3\4" + b"\0\0\0\0"]
ENTRIES = [(1, 0, b"abc"), (0, 1, None), (0, 0, b""), (1, 3, None), (1, 0, b"defgh")]
NARROW = [(rep, def_, b"1234" if def_ <= 1 else None) for rep, def_, _ in ENTRIES]

CASES = {
    "unpack_inline 8": Case(
        lambda d: kernels.unpack_inline(one(d), count(900), 8), packing.pack_inline([5] * 900, 8)
    ),
    "unpack_inline 64": Case(
        lambda d: kernels.unpack_inline(two(d), count(4, 1024), 64), 2 * packing.pack_inline([5] * 4, 64)
    ),
    "unpack_out_of_line": Case(
        lambda d: kernels.unpack_out_of_line(one(d), count(1100), 16, 3),
        packing.pack_out_of_line([5] * 1100, 16, 3, raw_tail=True),
    ),
    "expand_runs": Case(
        lambda d: kernels.expand_runs(one(d[:-4]), one(d[-4:]), count(403), 32),
        b"".join(values.runs([5] * 300 + [6] * 3 + [0] * 100, 32)),
    ),
    "split_runs": Case(
        lambda d: kernels.expand_runs(*kernels.split_runs(one(d), count(402)), count(402), 16),
        values.run_block([5] * 300 + [6] * 2 + [0] * 100, 16),
    ),
    "join_byte_streams": Case(lambda d: kernels.join_byte_streams(one(d), count(8), 8), RNG.randbytes(64)),
    "join_fixed": Case(lambda d: kernels.join_fixed(two(d), count(4, 4), 4), RNG.randbytes(32)),
    "join_bits": Case(lambda d: kernels.join_bits(two(d), count(61, 60)), RNG.randbytes(16)),
    "copy_bits": Case(lambda d: kernels.copy_bits(d, 13, 40), RNG.randbytes(7)),
    "join_variable 32": Case(
        lambda d: kernels.join_variable(one(d), count(5), 32), values.variable_chunk(TEXT, 32)
    ),
    "join_variable 64": Case(
        lambda d: kernels.join_variable(one(d), count(5), 64), values.variable_chunk(TEXT, 64)
    ),
    "variable block 32": Case(lambda d: block(d, 32), values.variable_block(TEXT, 32)),
    "variable block 64": Case(lambda d: block(d, 64), values.variable_block(TEXT, 64)),
    "symbol table": Case(
        lambda d: kernels.expand_symbols(
            SymbolTable(d),
            inputs.stream([values.variable_chunk([b"\0\1\2\3\4", b"\1\xff\1"], 32)]),
            count(2),
            32,
        ),
        fsst.symbol_table([b"a", b"bcd", b"e" * 8, b"fg", b"h"])[:80],
    ),
    "expand_symbols 32": Case(
        lambda d: kernels.expand_symbols(SymbolTable(fsst.symbol_table(SYMBOLS)), one(d), count(5), 32),
        values.variable_chunk(CODES, 32),
    ),
    "expand_symbols 64, partial table": Case(
        lambda d: kernels.expand_symbols(SymbolTable(fsst.symbol_table(SYMBOLS[:100])), one(d), count(5), 64),
        values.variable_chunk([fsst.encode(text, SYMBOLS[:100]) for text in TEXT], 64),
    ),
    "expand_page_symbols": Case(
        lambda d: kernels.expand_page_symbols(
            [SymbolTable(fsst.symbol_table(SYMBOLS[:n])) for n in (255, 100)],
            inputs.int64s([1, 1]),
            two(d),
            count(5, 5),
            32,
        ),
        values.variable_chunk([fsst.encode(text, SYMBOLS[:100]) for text in TEXT], 32) * 2,
    ),
    "expand_symbol_values 32": Case(
        lambda d: coded(d, 32), values.arrow_offsets(CODES, 32) + b"".join(CODES)
    ),
    "expand_symbol_values 64": Case(
        lambda d: coded(d, 64), values.arrow_offsets(CODES, 64) + b"".join(CODES)
    ),
    "levels inline": Case(
        lambda d: kernels.decode_validity(one(d), count(700), "inline", 0, 1, 2),
        packing.pack_inline([1] * 700, 16),
    ),
    "levels packed": Case(
        lambda d: kernels.decode_validity(one(d), count(2000), "packed", 2, 1, 2),
        packing.pack_out_of_line([1, 2] * 1000, 16, 2, raw_tail=False),
    ),
    "levels runs": Case(
        lambda d: kernels.decode_validity(one(d), count(350), "runs", 0, 1, 2),
        values.run_block([1] * 300 + [2] * 50, 16),
    ),
    "levels of lists": Case(lists, levels_of_lists()),
    "chunk": Case(lambda d: chunks(d, False, False), header_and_values(False, False)),
    "chunk with lists, large": Case(lambda d: chunks(d, True, True), header_and_values(True, True)),
    "unzip_fixed": Case(lambda d: kernels.unzip_fixed(d, 1, 2, 1, 4), values.zip_entries(NARROW, 1, 2)),
    "unzip_fixed, wide control word": Case(
        lambda d: kernels.unzip_fixed(d, 9, 9, 1, 4), values.zip_entries(NARROW, 9, 9)
    ),
    "unzip_variable 32": Case(
        lambda d: kernels.unzip_variable(d, 1, 2, 1, 32), values.zip_entries(ENTRIES, 1, 2, 32)
    ),
    "unzip_variable 64": Case(
        lambda d: kernels.unzip_variable(d, 8, 8, 1, 64), values.zip_entries(ENTRIES, 8, 8, 64)
    ),
    "gather_fixed": Case(
        lambda d: kernels.gather_fixed(d[:8], 4, 16, d[8:], 3),
        values.integers([0, 3, 2, 2], 16) + RNG.randbytes(12),
    ),
    "gather_bits": Case(
        lambda d: kernels.gather_bits(d[:8], 4, 16, d[8:], 30),
        values.integers([0, 29, 2, 2], 16) + RNG.randbytes(4),
    ),
    "check_indices": Case(lambda d: kernels.check_indices(d, 4, 16, 4), values.integers([0, 3, 2, 2], 16)),
    "split_rows": Case(lambda d: kernels.split_rows(d, 5, [4, 1, 3]), RNG.randbytes(40)),
    "join_row_bits": Case(lambda d: kernels.join_row_bits(d, 7, 13), RNG.randbytes(14)),
    "split_variable_rows": Case(
        lambda d: kernels.split_variable_rows(d[:16], d[16:], 3, 32, [(4, 0), (0, 32)]),
        values.arrow_offsets(ROWS, 32) + b"".join(ROWS),
    ),
    "pick_fixed": Case(lambda d: kernels.pick_fixed(two(d), count(4, 4), PICKS, 4), RNG.randbytes(32)),
    "pick_bits": Case(lambda d: kernels.pick_bits(two(d), count(61, 60), PICKS), RNG.randbytes(16)),
    "pick_inline": Case(
        lambda d: kernels.pick_inline(two(d), count(4, 1024), PICKS, 64), 2 * packing.pack_inline([5] * 4, 64)
    ),
    "pick_variable 32": Case(
        lambda d: kernels.pick_variable(one(d), count(5), PICKS[:3], 32), values.variable_chunk(TEXT, 32)
    ),
    "pick_variable 64": Case(
        lambda d: kernels.pick_variable(one(d), count(5), PICKS[:3], 64), values.variable_chunk(TEXT, 64)
    ),
    "pick_levels inline": Case(
        lambda d: kernels.pick_levels(one(d), count(700), PICKS, "inline", 0),
        packing.pack_inline([1] * 700, 16),
    ),
    "pick_levels packed": Case(
        lambda d: kernels.pick_levels(one(d), count(2000), PICKS, "packed", 2),
        packing.pack_out_of_line([1, 2] * 1000, 16, 2, raw_tail=False),
    ),
    "picks": Case(
        lambda d: kernels.pick_fixed(one(TWENTY), count(20), d, 1), values.integers([0, 3, 19], 64)
    ),
    "pick_rows": Case(picked_rows, levels_of_lists()),
    "places": Case(
        lambda d: kernels.pick_rows(
            *halves(inputs.place(levels_of_lists())), count(8), count(5), count(3), d, 2, 1
        ),
        values.integers([0, 0, 0, 0, 0, 2], 64),
    ),
    "locate_chunks": Case(
        lambda d: kernels.locate_chunks(d, False, 20, 100), struct.pack("<3H", 5 << 4 | 3, 1 << 4 | 3, 2 << 4)
    ),
    "locate_chunks, large": Case(
        lambda d: kernels.locate_chunks(d, True, 20, 100), struct.pack("<3I", 5 << 4 | 3, 1 << 4 | 3, 2 << 4)
    ),
    "choose_chunks": Case(
        lambda d: kernels.choose_chunks(d[:32], d[32:64], d[64:], 1000),
        values.integers([0, 48, 96, 144, 0, 8, 16, 20, 0, 9, 9, 19], 64),
    ),
    "choose_row_chunks": Case(
        lambda d: kernels.choose_row_chunks(d[:32], d[32:64], d[64:96], d[96:128], d[128:], 1000),
        values.integers([0, 48, 96, 144, 0, 8, 16, 20, 0, 3, 3, 4, 0, 2, 2, 4, 0, 2, 3], 64),
    ),
    "PieceReader": Case(lambda d: pieces(d, 99), values.integers([0, 7, 100, 5, 1, 0], 64)),
    "PieceReader, mapped": Case(lambda d: pieces(d, 0), values.integers([0, 7, 100, 5, 1, 0], 64)),
    "decode_rows, flat": Case(
        lambda d: decoded_rows(d, "flat", False), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, *range(4))
    ),
    "FlatPage, numbers": Case(lambda d: flat_rows(d, "numbers"), struct.pack("<4h8s", 1, 2, 3, 4, b"\x0b")),
    "FlatPage, text": Case(lambda d: flat_rows(d, "text"), struct.pack("<4Q32s", 2, 4, 24, 6, b"abcdef")),
    "FlatPage, lists": Case(
        lambda d: flat_rows(d, "lists"), struct.pack("<4Q6h19sB", 2, 4, 24, 6, *range(6), b"", 0x2F)
    ),
    "FlatPage, items": Case(lambda d: flat_rows(d, "items"), struct.pack("<4i16s", 0, 0, 1, 3, b"abc")),
    "decode_rows, mapped": Case(
        lambda d: copied_rows(d, False),
        struct.pack("<HI2x4iHI2x2i", 0, 16, *range(4), 0, 8, 4, 5),
    ),
    "decode_rows, mapped with nulls": Case(
        lambda d: copied_rows(d, True),
        struct.pack("<HHI4H4iHHI2H4x2i", 4, 8, 16, 0, 1, 0, 0, *range(4), 2, 4, 8, 1, 0, 4, 5),
    ),
    "decode_rows, variable": Case(
        lambda d: decoded_rows(d, "variable", False),
        struct.pack("<HHI4H5I3s", 4, 8, 23, 0, 1, 0, 0, 20, 20, 20, 21, 23, b"abc"),
    ),
    "decode_rows, fsst": Case(
        lambda d: decoded_rows(d, "fsst", False),
        struct.pack("<HHI4H5I6s", 4, 8, 26, 0, 1, 0, 0, 20, 20, 20, 22, 26, bytes([1, 2, 3, 255, 65, 7])),
    ),
    "decode_rows, lists": Case(
        lambda d: decoded_rows(d, "flat", True),
        struct.pack("<HHHIxxxxxx4H4H4i", 4, 8, 8, 16, 1, 0, 1, 0, 0, 0, 1, 0, *range(4)),
    ),
    "decode_rows, lz4": Case(
        lambda d: decoded_rows(d, "flat", False, "lz4"),
        struct.pack("<HHI4H", 4, 8, len(LZ4_INTS), 0, 1, 0, 0) + LZ4_INTS,
    ),
    "decode_rows, zstd": Case(
        lambda d: decoded_rows(d, "byte_stream_split", False, "zstd"),
        struct.pack("<HHI4H", 4, 8, len(ZSTD_INTS), 0, 1, 0, 0) + ZSTD_INTS,
    ),
    "decode_rows, runs": Case(
        lambda d: decoded_rows(d, "rle", False),
        struct.pack("<HHII4x4H2i2b", 4, 8, 8, 2, 0, 1, 0, 0, 5, 6, 3, 1),
    ),
    "match_intervals": Case(
        lambda d: matched_rows(d, None), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, *range(4))
    ),
    "match_listed": Case(
        lambda d: matched_rows(d, None, is_listed=True),
        struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, *range(4)),
    ),
    "match_remainder": Case(
        lambda d: matched_rows(d, None, divisor=2), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, *range(4))
    ),
    "match_items": Case(
        lambda d: matched_rows(d, bytes([0, 1, 1])), struct.pack("<HHI4H4i", 4, 8, 16, 0, 1, 0, 0, 0, 0, 2, 1)
    ),
    "match_items, 2.0": Case(lambda d: matched_flat_rows(d, bytes([1, 0, 1])), bytes([0, 2, 1, 2])),
    "match_items, mapped": Case(
        lambda d: matched_flat_rows(d, bytes([1, 0, 1]), map_after=0), bytes([0, 2, 1, 2])
    ),
    "match_intervals, mapped": Case(
        lambda d: matched_flat_rows(d, None, map_after=0), struct.pack("<4i", *range(4))
    ),
    "inflate lz4": Case(
        lambda d: kernels.inflate(one(d), "lz4").chunks(), lz4.block.compress(PROSE, store_size=True)
    ),
    "inflate zstd": Case(
        lambda d: kernels.inflate(one(d), "zstd").chunks(),
        len(PROSE).to_bytes(8, "little") + zstandard.compress(PROSE),
    ),
    "inflate zstd, numbers": Case(
        lambda d: kernels.inflate(one(d), "zstd").chunks(),
        len(NUMBERS).to_bytes(8, "little") + zstandard.compress(NUMBERS, 19),
    ),
    "inflate_values": Case(
        lambda d: kernels.inflate_values(d[:12], d[12:], 2, 32, "lz4"),
        values.arrow_offsets([LZ4_INTS, LZ4_INTS], 32) + 2 * LZ4_INTS,
    ),
    "json_text": Case(lambda d: kernels.json_text(d[:32], d[32:], None, 0, 3), json_values()),
    "json_binary": Case(lambda d: kernels.json_binary(d[:32], d[32:], None, 0, 3), json_texts()),
    "json_values_at": Case(
        lambda d: kernels.json_values_at(d[:32], d[32:], None, 0, 3, "$.**[*]?(@ != 1)"), json_values()
    ),
    "json_leaves": Case(lambda d: kernels.json_leaves(d[:32], d[32:], None, 0, 3), json_values()),
    "json_member": Case(lambda d: kernels.json_member(d[:32], d[32:], None, 0, 3, "k"), json_values()),
    "json_exists": Case(lambda d: kernels.json_exists(d[:32], d[32:], None, 0, 3, "$.k[0]"), json_values()),
    "json_array_length": Case(
        lambda d: kernels.json_array_length(d[:32], d[32:], None, 0, 3, "$.k"), json_values()
    ),
    "json_array_contains": Case(
        lambda d: kernels.json_array_contains(d[:32], d[32:], None, 0, 3, "$.*", "a"), json_values()
    ),
    **{
        kernel.__name__: Case(lambda d, kernel=kernel: kernel(d[:40], d[40:], None, 0, 4), json_scalars())
        for kernel in (kernels.json_strings, kernels.json_integers, kernels.json_floats)
    },
    "json_booleans": Case(
        lambda d: kernels.json_booleans(d[:24], d[24:], None, 0, 2),
        values.arrow_offsets(JSON_TRUTHS, 64) + b"".join(JSON_TRUTHS),
    ),
    "digest_values": Case(lambda d: kernels.digest_values(d[:32], d[32:], 3, "sha256"), json_texts()),
    "encode_base64": Case(lambda d: kernels.encode_base64(d[:32], d[32:], 3, True), json_texts()),
    "decode_base64": Case(
        lambda d: kernels.decode_base64(d[:24], d[24:], 2, False),
        values.arrow_offsets([b"YWJj", b"YQ=="], 64) + b"YWJjYQ==",
    ),
    "match_like": Case(
        lambda d: kernels.match_like(
            d[:32], d[32:], 3, 64, [[(1, b"a"), (1, b"")], [(0, b"b")]], False, False
        ),
        json_texts(),
    ),
    "split_part": Case(lambda d: kernels.split_part(d[:32], d[32:], 3, 64, b"a", 2), json_texts()),
    "split_part, backwards": Case(
        lambda d: kernels.split_part(d[:32], d[32:], 3, 64, b"a", -1), json_texts()
    ),
    "replace_text": Case(lambda d: kernels.replace_text(d[:32], d[32:], 3, 64, b"a", b"bc"), json_texts()),
    "replace_text, in place": Case(
        lambda d: kernels.replace_text(d[:32], d[32:], 3, 64, b"a", b"b"), json_texts()
    ),
    "join_texts": Case(
        lambda d: kernels.join_texts([(d[:32], d[32:]), (None, b"-"), (d[:32], d[32:])], 3, 64), json_texts()
    ),
    "count_characters": Case(lambda d: kernels.count_characters(d[:32], d[32:], 3, 64), json_texts()),
    "lists_with": Case(
        lambda d: kernels.lists_with(d[:16], 3, 32, d[16:]),
        values.integers([2, 5, 5, 20], 32) + bytes([7, 0, 9]),
    ),
    "list_places": Case(
        lambda d: kernels.list_places(d[:16], 3, 32, d[16:]),
        values.integers([2, 5, 5, 9], 32) + values.integers([1, 2**64 - 1, 3], 64),
    ),
    "compare_floats": Case(
        lambda d: kernels.compare_floats(d[: len(d) // 2], d[len(d) // 2 :], 32, True, True), bytes(range(80))
    ),
    "edit_distances": Case(lambda d: kernels.edit_distances(d[:32], d[32:], d[:32], d[32:], 3), json_texts()),
    "field_totals": Case(
        lambda d: kernels.field_totals(d, (2, 4)),
        # numbers: field 1 and, in the message of field 2, field 4; 8 bytes in field 3, 4 bytes in field 5
        bytes([8, 0xAC, 2, 18, 6, 32, 5, 10, 2, 7, 7, 25, *range(8), 45, *range(4)]),
    ),
    "split_null_ends": Case(
        lambda d: kernels.split_null_ends(d, 3, True, 100, 60, 32), values.integers([3, 5, 109, 60], 64)
    ),
    "unite_row_sets": Case(
        lambda d: kernels.unite_row_sets(inputs.int64s([2]), d[:12], d[12:], True), row_sets()
    ),
    "parse_file_pages": Case(lambda d: two_files(kernels.parse_file_pages, d), small_file() * 2),
    "parse_file_arrays": Case(lambda d: two_files(kernels.parse_file_arrays, d), small_file_of_arrays() * 2),
    "join_null_ends": Case(
        lambda d: kernels.join_null_ends(d[32:], d[:16], d[16:32], inputs.int64s([7, 9]), 32),
        values.integers([2, 1, 9, 9, 3, 7, 18], 64),
    ),
    "join_ranges": Case(
        lambda d: kernels.join_ranges(d[16:], d[:8], d[8:16]),
        values.integers([3, 5], 64) + bytes(9),
    ),
    "join_chunks": Case(
        lambda d: kernels.join_chunks(
            d, inputs.int64s([0, 4, 0, 4]), inputs.int64s([8, 56, 8, 56]), inputs.int64s([9, 9]), False
        ),
        struct.pack("<4H", 5 << 4 | 3, 0 << 4, 0, 0) + bytes(56),
    ),
    "unpack_bit_stream": Case(lambda d: kernels.unpack_bit_stream(d, 5, 11, 7, 16, True), RNG.randbytes(11)),
}


@pytest.mark.parametrize("name", CASES)
def test_valid_input_is_accepted(name: str) -> None:
    """Without this the other tests here would pass on kernels that refuse everything."""
    case = CASES[name]
    for shift in range(8):
        case.run(inputs.place(case.data, shift))


@pytest.mark.parametrize("name", CASES)
def test_cut_input(name: str) -> None:
    """T22, T23: every prefix."""
    case = CASES[name]
    lengths = (
        range(len(case.data)) if len(case.data) < 400 else [*range(200), *range(200, len(case.data), 13)]
    )
    for length in lengths:
        inputs.answer_or_refusal(lambda: case.run(inputs.place(case.data[:length])))  # noqa: B023


@pytest.mark.parametrize("mutants", [300, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CASES)
def test_changed_input(name: str, mutants: int) -> None:
    """T22, T23: one to three bytes replaced, mostly near the front, where the sizes are."""
    case = CASES[name]
    rng = random.Random(f"{name} {mutants}")
    for _ in range(mutants):
        data = bytearray(case.data)
        for _ in range(rng.randint(1, 3)):
            reach = rng.choice((8, 32, len(data)))
            at = rng.randrange(min(reach, len(data)))
            bit = data[at] ^ (1 << rng.randrange(8))
            data[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256), bit))
        inputs.answer_or_refusal(lambda: case.run(inputs.place(bytes(data))))  # noqa: B023


def test_deep_json() -> None:
    """T24: nesting has a limit far below what the stack of a thread holds."""
    value = json_container(ARRAY)
    for _ in range(20_000):
        value = json_container(ARRAY, (5, value))
    with pytest.raises(kernels.CorruptData, match="deeper"):
        kernels.json_text(values.arrow_offsets([value], 64), value, None, 0, 1)
    text = b"[" * 20_000
    with pytest.raises(kernels.CorruptData, match="deeper"):
        kernels.json_binary(values.arrow_offsets([text], 64), text, None, 0, 1)


def test_every_kernel_is_here() -> None:
    """A kernel that reads bytes of a file and is not tried above fails here."""
    tried = __file__, kernel_runs.__file__
    source = "".join(Path(name).read_text(encoding="utf-8") for name in tried)
    made_of_values = {
        "expand_ways",
        "repeat_value",
        "repeat_variable",
        "bytes_to_bits",
        "check_json_path",
        "count_read",
        "count_write",
        "start_write_back",
        "io_counts",
        "pool_use",
        "set_pool_retention",
        "thread_reads",
    }
    # Statistics and encoders get arrays that Arrow has checked, and checksums any bytes.
    of_arrow_data = {
        "ArrayBuilder",
        "LevelBuilder",
        "TermCollector",
        "assemble_chunks",
        "bloom_filter",
        "build_map",
        "candidate_ranges",
        "chunk_variable",
        "compress_lz4",
        "compress_symbols",
        "count_changes",
        "count_levels",
        "crc32c",
        "crc32c_by",
        "crc32c_ways",
        "cut_bits",
        "encode_levels",
        "encode_runs",
        "find_distinct",
        "find_trigrams",
        "fixed_zones",
        "hash_strings",
        "interleave_rows",
        "join_variable_rows",
        "longest_value",
        "map_levels",
        "rebase_offsets",
        "remainders",
        "repeat_levels",
        "sample_distinct",
        "search_strings",
        "has_dense_blocks",
        "kept_bits",
        "kept_values",
        "set_positions",
        "bits_except",
        "shred_items",
        "shred_lists",
        "sort_rows",
        "sort_variable",
        "split_byte_streams",
        "survey_words",
        "train_symbols",
        "try_symbols",
        "variable_zones",
        "write_checked",
        "xxhash64",
    }
    in_test_sets_by_value = {"SetCollector"}
    in_test_text = {
        "Postings",
        "WordReader",
        "best_documents",
        "decode_position_lists",
        "decode_positions",
        "expand_map",
        "find_key",
        "match_phrase",
        "similar_terms",
    }
    in_test_takes = {"ColumnPages", "ArrowRows", "take_rows"}
    in_test_vector_index = {
        "BestRows",
        "Graph",
        "KeySet",
        "QueriedRows",
        "StoredVectors",
        "code_sizes",
        "lookup_table",
        "nearest_centroids",
        "scan_compared",
        "scan_lookups",
        "scan_product_codes",
        "sorted_rows",
        "sum_clusters",
    }
    in_test_vectors = {
        "Comparison",
        "PlainPages",
        "distances_in_files",
        "nearest_in_file",
        "nearest_vectors",
        "vector_distances",
    }
    errors = {"ChunkOverflow", "CorruptData", "InvalidPath", "NoResult", "OffsetOverflow"}
    in_test_descriptors = {"Descriptor", "close_unused_descriptors"}
    no_kernels = {"Block", "LONGEST_RUN"} | errors
    tried_elsewhere = (
        in_test_descriptors
        | in_test_sets_by_value
        | in_test_takes
        | in_test_text
        | in_test_vector_index
        | in_test_vectors
    )
    names = set(kernels.__all__) - no_kernels - made_of_values - of_arrow_data - tried_elsewhere
    assert [name for name in sorted(names) if f"kernels.{name}(" not in source and name not in source] == []
