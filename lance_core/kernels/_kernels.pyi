# Types of the compiled module. `_Bytes` is any object with the buffer protocol. Arrays of numbers are
# little-endian int64. Every function raises CorruptData if the bytes contradict the format.

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer as _Bytes

# NumPy's arrays have the buffer protocol, but say so to type checkers only from Python 3.12 on.
_Numbers = _Bytes | np.ndarray[Any, Any]

class CorruptData(ValueError): ...  # noqa: N818
class InvalidPath(ValueError): ...  # noqa: N818
class NoResult(ValueError): ...  # noqa: N818
class OffsetOverflow(OverflowError): ...  # noqa: N818

class Block:
    """Memory from the pool, with the buffer protocol."""

    def __init__(self, num_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Descriptor:
    """Descriptor of a file that is read. It may be closed while nobody reads, and opened again."""

    def __init__(self, number: int, path: bytes) -> None:
        """Take an open descriptor of the file at `path`, which is absolute.

        With an empty path, it stays open.
        """

def close_unused_descriptors() -> int:
    """Close the descriptors that nobody reads from, and return how many they were."""

class PieceReader:
    """Reads byte ranges of one local file; thread-safe."""

    def __init__(self, descriptor: Descriptor, file_bytes: int, max_gap: int, map_after: int) -> None:
        """Once `map_after` ranges were read, short ones are copied out of a map of the file."""

    def read_range(self, offset: int, length: int) -> tuple[Block, int, int]:
        """The bytes of one range, an errno, or 0, and where the file ended too early, or -1."""

    def read(self, parts: Sequence[tuple[_Bytes, _Bytes]]) -> tuple[list[Block], int, int]:
        """The bytes of the ranges of each part (int64 offsets and lengths), one after the other.

        Beside them an errno, or 0, and where the file ended too early, or -1.
        """

class Counts:
    """Number of values in each of several consecutive chunks."""

    def __init__(self, values: _Bytes) -> None: ...
    @property
    def total(self) -> int: ...
    @property
    def values(self) -> Block:
        """The numbers, as int64."""
    def __len__(self) -> int: ...
    def scaled(self, factor: int) -> Counts:
        """Return each count times `factor`."""

class Stream:
    """The same buffer of each of several consecutive chunks."""

    def __init__(self, data: _Bytes, offsets: _Bytes, lengths: _Bytes) -> None: ...
    def __len__(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def chunks(self) -> list[bytes]:
        """Return copies of all chunks, for codecs in other libraries."""

class ArrayBuilder:
    """Joins slices of arrays of one type. Each value is copied once."""

    def __init__(self, value_bits: int, offset_bits: int, expected_bytes: int) -> None:
        """Start an array of values of `value_bits`, or with offsets of `offset_bits`. If both are 0, it is
        only validity.
        """

    def append(
        self,
        num_values: int,
        first: int,
        validity: _Bytes | None,
        values: _Bytes | None = None,
        data: _Bytes | None = None,
    ) -> None:
        """Append values of an array, from `first` on. `values` are its offsets if it has offsets."""

    def finish(self) -> tuple[int, int, Block, Block, Block]:
        """Return number of values, number of nulls, validity (if there are nulls), values or offsets,
        data.
        """

class LevelBuilder:
    """Joins levels (u16). An entry without levels gets zeros."""

    def __init__(self, expected_bytes: int) -> None: ...
    def append(self, first: int, num_entries: int, levels: _Bytes) -> None:
        """Append the levels of the entries from `first` on."""

    def finish(self, num_entries: int) -> Block | None:
        """Return the levels of all entries; None if no entry had levels."""

class SymbolTable:
    """A parsed FSST symbol table."""

    def __init__(self, table: _Bytes, way: str | None = None) -> None:
        """Parse a table. `way` is one of `expand_ways`, the fastest by default; others raise ValueError."""

    @property
    def codes(self) -> bool:
        """False if values are stored as plain text."""

def pool_use() -> tuple[int, int]:
    """Return the bytes in live blocks, and the bytes kept for reuse."""

def count_read(num_bytes: int) -> None:
    """Count a read of this process that Python made."""

def count_write(num_bytes: int) -> None:
    """Count a write of this process that Python made."""

def io_counts() -> tuple[int, int, int, int]:
    """Return the reads of this process and their bytes, and its writes and their bytes."""

def thread_reads() -> tuple[int, int, int]:
    """Return the calls of this thread that read, the byte ranges that they read, and their bytes, since the
    thread began.
    """

def set_pool_retention(num_bytes: int) -> None:
    """Set the limit in bytes for large blocks that are kept for reuse."""

def locate_chunks(words: _Bytes, large: bool, num_values: int, num_bytes: int) -> tuple[Block, Block]:
    """Return byte positions and first values (int64) of the chunks, each with one entry more, for the
    totals.
    """

def parse_file_pages(
    data: _Bytes, starts: _Numbers, sizes: _Numbers, metadata: _Numbers, metadata_sizes: _Numbers
) -> tuple[list[tuple[int, bytes]], Block]:
    """Return the pages of one column of many files that lie in `data`, if each file has one page.

    `starts` and `sizes` are the places of the files, the others those of the metadata of the column.

    Returns:
        The distinct layouts, as the number of the field of `PageLayout` and its message without the counts
        of one page; and one record per file, see `metadata/file_pages.hpp`.
    """

def parse_file_arrays(
    data: _Bytes, starts: _Numbers, sizes: _Numbers, metadata: _Numbers, metadata_sizes: _Numbers
) -> tuple[list[tuple[int, bytes]], Block]:
    """Return the pages of one column of many 2.0 files, as `parse_file_pages` does those of later versions.

    A layout is the number of the field of `ArrayEncoding`, and the whole message without counts.
    """

def join_ranges(data: _Bytes, offsets: _Numbers, sizes: _Numbers) -> Block:
    """Return ranges of `data`, one after the other."""

def join_chunks(
    data: _Bytes, words: _Numbers, chunks: _Numbers, num_values: _Numbers, large: bool
) -> tuple[Block, Block, Block, Block]:
    """Return the chunks of several mini-block pages as those of one page.

    `words` and `chunks` are the places of the first two buffers of each page: position and size in `data`.

    Returns:
        The bytes of all chunks; the position and the first value of each chunk, with one entry more, for the
        totals; the number of chunks of each page.
    """

def parse_chunks(
    data: _Bytes,
    offsets: _Bytes,
    counts: Counts,
    has_rep: bool,
    has_def: bool,
    num_buffers: int,
    large: bool,
) -> tuple[Counts, Stream, Stream, list[Stream]]:
    """Return levels per chunk, and the streams of repetition levels, definition levels and value buffers."""

def join_fixed(stream: Stream, counts: Counts, width: int) -> Block: ...
def join_bits(stream: Stream, counts: Counts) -> Block: ...
def copy_bits(bits: _Bytes, start: int, num_bits: int) -> Block: ...
def bytes_to_bits(values: _Bytes) -> Block: ...
def repeat_value(value: _Bytes, num_values: int) -> Block: ...
def unpack_inline(stream: Stream, counts: Counts, word_bits: int) -> Block: ...
def unpack_out_of_line(stream: Stream, counts: Counts, word_bits: int, bits: int) -> Block: ...
def expand_runs(values: Stream, lengths: Stream, counts: Counts, word_bits: int) -> Block: ...
def split_runs(blocks: Stream, counts: Counts) -> tuple[Stream, Stream]:
    """Return run values and run lengths. The runs of a block add up to its count."""

def join_byte_streams(stream: Stream, counts: Counts, width: int) -> Block: ...
def join_variable(stream: Stream, counts: Counts, offset_bits: int) -> tuple[Block, Block]:
    """Return offsets and bytes."""

def join_variable_blocks(stream: Stream, counts: Counts, offset_bits: int) -> tuple[Block, Block]:
    """Return offsets and bytes of blocks, each of which begins with the width of its offsets."""

def json_text(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block]:
    """Return the text of binary JSON values, which have 64-bit offsets: 32-bit offsets and UTF-8 bytes."""

def json_binary(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block]:
    """Return the binary form of JSON text: 64-bit offsets and bytes. The reverse of `json_text`."""

def check_json_path(path: str, /) -> None:
    """Raise `InvalidPath` if a text is no path of JSON."""

def json_values_at(
    offsets: _Bytes,
    data: _Bytes,
    validity: _Bytes | None,
    first_bit: int,
    num_values: int,
    path: str,
    /,
) -> tuple[Block, Block, Block]:
    """Return validity, 64-bit offsets and bytes of the values at a path, as binary JSON."""

def json_exists(
    offsets: _Bytes,
    data: _Bytes,
    validity: _Bytes | None,
    first_bit: int,
    num_values: int,
    path: str,
    /,
) -> tuple[Block, Block]:
    """Return validity and values, as bits: whether there is a value at a path."""

def json_array_length(
    offsets: _Bytes,
    data: _Bytes,
    validity: _Bytes | None,
    first_bit: int,
    num_values: int,
    path: str,
    /,
) -> tuple[Block, Block]:
    """Return validity and int64 values: the number of items of the first value at a path."""

def json_array_contains(
    offsets: _Bytes,
    data: _Bytes,
    validity: _Bytes | None,
    first_bit: int,
    num_values: int,
    path: str,
    text: str,
    /,
) -> tuple[Block, Block]:
    """Return validity and values, as bits: whether an array at a path has this item."""

def json_member(
    offsets: _Bytes,
    data: _Bytes,
    validity: _Bytes | None,
    first_bit: int,
    num_values: int,
    name: str,
    /,
) -> tuple[Block, Block, Block]:
    """Return validity, 64-bit offsets and bytes of one member of each document, as binary JSON."""

def json_strings(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block, Block]:
    """Return validity, 32-bit offsets and bytes of documents as text."""

def json_integers(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block]:
    """Return validity and int64 values of documents."""

def json_leaves(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block, Block, Block, Block, Block]:
    """Return the values in documents that are no arrays and no objects: the int64 end of the values of each
    document, the uint32 number of the label of each value, the labels (64-bit offsets and bytes), and the
    values as text (64-bit offsets and bytes). A label is the path and the type of a value, with commas.
    """

def json_floats(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block]:
    """Return validity and float64 values of documents."""

def json_booleans(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int, /
) -> tuple[Block, Block]:
    """Return validity and values of documents, as bits."""

def digest_values(offsets: _Bytes, data: _Bytes, num_values: int, name: str) -> Block:
    """Return the digests (md5, sha224, sha256, sha384, sha512) of values that have 64-bit offsets."""

def encode_base64(offsets: _Bytes, data: _Bytes, num_values: int, padding: bool) -> tuple[Block, Block]:
    """Return 64-bit offsets and text of values that have 64-bit offsets."""

def decode_base64(offsets: _Bytes, data: _Bytes, num_values: int, required: bool) -> tuple[Block, Block]:
    """Return 64-bit offsets and bytes of texts. `NoResult`: one is no base64, or lacks `required` padding."""

def edit_distances(
    left_offsets: _Bytes, left: _Bytes, right_offsets: _Bytes, right: _Bytes, num_values: int
) -> Block:
    """Return the edit distances, in int32, of pairs of texts that have 64-bit offsets."""

def match_like(
    offsets: _Bytes,
    data: _Bytes,
    num_values: int,
    offset_bits: int,
    segments: Sequence[Sequence[tuple[int, bytes]]],
    at_start: bool,
    at_end: bool,
) -> Block:
    """Return a bit per text: whether the segments follow one another in it, with any characters between them.

    Args:
        offsets, data, num_values, offset_bits: Texts in UTF-8, as Arrow has them.
        segments: Pieces of each segment: a number of characters of any kind, and the bytes that follow them.
        at_start: Whether the first segment begins the text.
        at_end: Whether the last segment ends the text.
    """

def remainders(numbers: _Bytes, bits: int, is_signed: bool, divisor: int) -> Block:
    """Return the remainders of integers of 8, 16, 32 or 64 bits, with the signs of the integers.

    The divisor is positive and in the range of the integers.
    """

def split_part(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, separator: bytes, index: int
) -> tuple[Block, Block]:
    """Return of each text the part `index` between separators, as offsets and bytes.

    Parts count from 1 on, or from -1 backwards. A text with fewer parts gives an empty text. The other
    arguments are those of `match_like`.
    """

def replace_text(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, part: bytes, by: bytes
) -> tuple[Block, Block]:
    """Return texts with `by` in place of each `part`, which is not empty, as offsets and bytes.

    Parts are looked for from the start of a text, and do not overlap. The other arguments are those of
    `match_like`. OffsetOverflow is raised if the result has more bytes than its offsets can count.
    """

def join_texts(
    operands: Sequence[tuple[_Bytes | None, _Bytes]], num_values: int, offset_bits: int
) -> tuple[Block, Block]:
    """Return for each row the texts of all operands one after the other, as offsets and bytes.

    An operand is the offsets and the bytes of its texts; or None and the text of all rows. OffsetOverflow is
    raised if the result has more bytes than its offsets can count.
    """

def count_characters(offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int) -> Block:
    """Return how many characters each text has, as integers of `offset_bits`.

    The arguments are those of `match_like`.
    """

def compare_floats(left: _Bytes, right: _Bytes, bits: int, is_less: bool, is_negated: bool) -> Block:
    """Return a bit per row: whether the left float equals the right one, or if `is_less`, is less.

    NaN equals NaN and is the greatest number. `is_negated` exchanges the results. The bits after the last row
    are zero.
    """

def lists_with(offsets: _Bytes, num_lists: int, offset_bits: int, found: _Bytes) -> Block:
    """Return a bit per list: whether it has an item whose bit is set in `found`.

    The first bit is that of the first item of the first list.
    """

def list_places(offsets: _Bytes, num_lists: int, offset_bits: int, indices: _Bytes) -> tuple[Block, Block]:
    """Return for each list the place of one item as int64, and a bit: whether the list has the item.

    Places are counted from the first item of the first list. If a list lacks the item, its place is 0.

    Args:
        indices: Int64, one for each list or one for all: the item, counted from 1 on, or from -1 backwards.
    """

def field_totals(message: _Bytes, path: Sequence[int]) -> tuple[int, int]:
    """Return the number of fields of a protobuf message at a path of field numbers, and the sum of their
    values, which is 0 unless they are varints.

    The path leads from message to message. A sum of more than 64 bits raises CorruptData.
    """

def repeat_variable(value: _Bytes, num_values: int, offset_bits: int) -> tuple[Block, Block]: ...
def expand_ways() -> list[str]:
    """Return the names of the implementations for this processor, fastest first, "portable" last."""

def expand_symbols(
    table: SymbolTable, stream: Stream, counts: Counts, offset_bits: int
) -> tuple[Block, Block]: ...
def expand_page_symbols(
    tables: list[SymbolTable], num_chunks: _Numbers, stream: Stream, counts: Counts, offset_bits: int
) -> tuple[Block, Block]:
    """Expand the chunks of several pages. Each page has a table, and `num_chunks` of the chunks."""

def expand_symbol_values(
    table: SymbolTable, offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int
) -> tuple[Block, Block]: ...
def inflate(chunks: Stream, compression: str) -> Stream:
    """Decompress chunks. `compression` is "lz4", "zstd" or "none"."""

def inflate_values(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, compression: str
) -> tuple[Block, Block]:
    """Decompress values with Arrow offsets, each of which is compressed by itself. Return offsets and
    bytes.
    """

def decode_levels(stream: Stream, counts: Counts, coding: str, bits: int) -> Block:
    """Decode levels to u16. `coding` is "flat", "inline", "packed" (in `bits` bits) or "runs"."""

def decode_validity(
    stream: Stream, counts: Counts, coding: str, bits: int, limit: int, highest: int
) -> tuple[Block, int]:
    """Return a bitmap of levels <= `limit`, and the number of other levels. No level may exceed `highest`."""

def find_rows(
    rep: _Bytes, def_: _Bytes | None, max_rep: int, max_visible: int, skip_rows: int, num_rows: int
) -> tuple[int, int, int, int, int]:
    """Return first and end entry, first and end value of the rows, and the number of all values."""

def item_validity(def_: _Bytes, depth_of: _Bytes, depth: int, limit: int) -> tuple[Block, int, int]:
    """Return bitmap, number of slots, number of nulls."""

def list_layer(
    rep: _Bytes,
    def_: _Bytes | None,
    null: int,
    empty: int,
    upper: int,
    shown: int,
    max_rep: int,
    offset_bits: int,
    with_levels: bool,
) -> tuple[Block, Block, int, int, int, Block, Block]:
    """Return offsets, bitmap, number of lists, nulls and items, and the levels of the next layer if
    requested.
    """

def unzip_fixed(
    data: _Bytes, rep_bits: int, def_bits: int, max_visible: int, width: int
) -> tuple[Block, Block, int, Block, int]:
    """Return repetition levels, definition levels, number of entries, values, number of values."""

def unzip_variable(
    data: _Bytes, rep_bits: int, def_bits: int, max_visible: int, length_bits: int
) -> tuple[Block, Block, int, Block, Block, int]:
    """Return repetition levels, definition levels, number of entries, offsets, bytes, number of values."""

def check_indices(indices: _Bytes, num_values: int, index_bits: int, num_items: int) -> None: ...
def gather_fixed(indices: _Bytes, num_values: int, index_bits: int, items: _Bytes, width: int) -> Block: ...
def gather_bits(
    indices: _Bytes, num_values: int, index_bits: int, bits: _Bytes, num_items: int
) -> tuple[Block, int]:
    """Return the bitmap, and the number of its bits that are not set."""

def gather_variable(
    indices: _Bytes,
    num_values: int,
    index_bits: int,
    offsets: _Bytes,
    data: _Bytes,
    num_items: int,
    offset_bits: int,
) -> tuple[Block, Block]: ...
def split_null_ends(
    ends: _Bytes, num_values: int, has_previous: bool, adjustment: int, limit: int, offset_bits: int
) -> tuple[Block, Block, int, int, int]:
    """Return offsets, bitmap (empty without nulls), number of nulls, and begin and end of the values."""

def join_null_ends(
    ends: _Bytes, num_values: _Numbers, adjustments: _Numbers, limits: _Numbers, offset_bits: int
) -> tuple[Block, Block, int, Block]:
    """Return offsets, bitmap (empty without nulls) and number of nulls of the values of several pages, and
    the number of bytes or items of each page (int64).

    `num_values`, `adjustments` and `limits` have one number per page.
    """

def unpack_bit_stream(
    data: _Bytes, start: int, num_values: int, bits: int, word_bits: int, is_signed: bool
) -> Block: ...
def split_rows(rows: _Bytes, num_rows: int, widths: list[int]) -> list[Block]: ...
def join_row_bits(rows: _Bytes, num_rows: int, bits_per_row: int) -> Block: ...
def split_variable_rows(
    offsets: _Bytes, data: _Bytes, num_rows: int, offset_bits: int, fields: list[tuple[int, int]]
) -> list[tuple[Block, Block]]:
    """Return values and an empty block, or offsets and bytes, per member. `fields`: width and length bits."""

def set_positions(bits: _Bytes, start: int, n: int, first: int) -> Block:
    """Return the positions (int64, ascending) of the set bits of `[start, start + n)`.

    The position of bit `start` is `first`, which has 32 bits.
    """

def has_dense_blocks(bits: _Bytes, start: int, n: int, block_bits: int, least_share: float) -> bool:
    """Return whether at least one bit and this share of bits is set in each block of `[start, start + n)`."""

def kept_values(values: _Bytes, width: int, mask: _Bytes, start: int, n: int) -> Block:
    """Return the n values of `width` bytes whose bits of `[start, start + n)` of a bitmap are set."""

def kept_bits(bits: _Bytes, first: int, mask: _Bytes, start: int, n: int) -> Block:
    """Return the bits of `[first, first + n)` whose bits of `[start, start + n)` of `mask` are set."""

def candidate_ranges(
    kept: _Bytes, sure: _Bytes, num_conditions: int, edges: _Bytes, starts: Sequence[int]
) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """Return the rows in which every condition may be true, divided where other conditions are sure to be.

    `kept` and `sure` have a byte for each condition and range of rows between `edges` (int64): whether the
    condition may be true, and is sure to be. `starts` are the first rows of fragments, and the number of all
    rows. A result is: number of the fragment, its rows `[start, end)`, and the conditions that are not sure.
    """

def bits_except(positions: _Bytes, n: int) -> Block:
    """Return a bitmap of n bits, all set but those at `positions` (uint32, each below n)."""

def fixed_zones(
    values: _Bytes,
    validity: _Bytes | None,
    start: int,
    num_values: int,
    rows_per_zone: int,
    order: str,
    width: int,
) -> tuple[Block, Block, Block, Block, Block]:
    """Compute the statistics of each zone of `rows_per_zone` values of a buffer, from value `start` on.

    `order` is "bits" (width 1), "signed", "unsigned", "floats" or "bytes"; `width` is in bytes.

    Returns nulls and NaNs (int64), a byte that is 1 if the zone has bounds, and the least and greatest values
    (booleans as bytes).
    """

def variable_zones(
    offsets: _Bytes,
    data: _Bytes,
    validity: _Bytes | None,
    start: int,
    num_values: int,
    rows_per_zone: int,
    offset_bits: int,
    limit: int,
    utf8: bool,
) -> tuple[Block, tuple[Block, Block, Block], tuple[Block, Block, Block]]:
    """Compute the statistics of each zone of strings: nulls (int64), lower bounds and upper bounds.

    Bounds are a byte that is 1 if there is one, int32 offsets, and the bytes. They have at most `limit`
    bytes: a longer least value is truncated, a longer greatest value is truncated and then raised.
    """

def crc32c(data: _Bytes, initial: int = 0) -> int:
    """Return the CRC-32C of bytes that follow other bytes with the CRC `initial`."""

def crc32c_ways() -> list[str]:
    """Return the names of the implementations for this processor, fastest first, "portable" last."""

def crc32c_by(way: str, data: _Bytes, initial: int = 0) -> int:
    """Compute `crc32c` with one of `crc32c_ways`; other names raise ValueError."""

def write_checked(descriptor: int, data: _Bytes, crc: int) -> tuple[int, int, int]:
    """Write bytes at the current position of a file descriptor. `crc` is the CRC-32C of the bytes before
    them.

    Returns the number of bytes written, the CRC-32C including them, and the error number (errno) if not all
    bytes could be written, else 0.
    """

def start_write_back(descriptor: int, offset: int, length: int) -> int:
    """Let the disk begin to write these bytes of a file, without waiting for it.

    Nothing is durable before the file is synced, but that sync waits for fewer bytes. Returns the error
    number (errno), and 0 if the file or the system knows no such start.
    """

# Writing of pages. Codings of levels are "flat", "packed" or "runs", each with a number of bits.

LONGEST_RUN: int

class ChunkOverflow(OverflowError): ...  # noqa: N818

def assemble_chunks(
    buffers: Sequence[Stream],
    counts: Counts,
    rep: _Bytes | None,
    rep_coding: tuple[str, int],
    def_: _Bytes | None,
    def_coding: tuple[str, int],
    max_rep: int,
    max_visible: int,
    large: bool,
) -> tuple[Block, Block, Block]:
    """Return words, chunks and repetition index of a mini-block page. ChunkOverflow: a chunk is too large."""

def chunk_variable(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, target_bytes: int, max_values: int
) -> tuple[Counts, Stream]: ...
def compress_lz4(chunks: Stream) -> Stream:
    """Compress each chunk to a frame: its size (u32) and one LZ4 block."""

def longest_value(offsets: _Bytes, num_values: int, offset_bits: int) -> int: ...
def rebase_offsets(offsets: _Bytes, num_values: int, offset_bits: int) -> Block:
    """Return the offsets moved to start at zero."""

def pack_inline(values: _Bytes, word_bits: int) -> Stream:
    """Pack words, one chunk per 1024 values."""

def pack_out_of_line(values: _Bytes, word_bits: int, bits: int) -> Block: ...
def survey_words(values: _Bytes, word_bits: int, is_signed: bool = False) -> tuple[int, int, int, int, int]:
    """Return bytes of `pack_inline`, runs of equal values, bits of the largest value, least and greatest
    word.
    """

def encode_runs(
    values: _Bytes, word_bits: int, chunk_values: int, chunk_bytes: int
) -> tuple[Counts, Stream, Stream]:
    """Return the counts of chunks, run values and run lengths."""

def split_byte_streams(values: _Bytes, width: int, chunk_values: int) -> Block: ...
def cut_bits(bits: _Bytes, offset: int, counts: Counts) -> Block:
    """Cut a bitmap into chunks that each begin at a byte."""

def zip_fixed(
    values: _Bytes,
    width: int,
    num_values: int,
    rep: _Bytes | None,
    def_: _Bytes | None,
    rep_bits: int,
    def_bits: int,
    max_visible: int,
    max_rep: int,
) -> tuple[Block, Block]:
    """Return zipped entries and repetition index."""

def zip_variable(
    offsets: _Bytes,
    data: _Bytes,
    num_values: int,
    length_bits: int,
    rep: _Bytes | None,
    def_: _Bytes | None,
    rep_bits: int,
    def_bits: int,
    max_visible: int,
    max_rep: int,
) -> tuple[Block, Block]:
    """Return zipped entries and repetition index."""

def interleave_rows(columns: Sequence[_Bytes], widths: Sequence[int], num_rows: int) -> Block: ...
def join_variable_rows(
    fields: Sequence[tuple[int, int, _Bytes | None, _Bytes | None]],
    num_rows: int,
    validity: _Bytes | None,
    first_bit: int,
) -> tuple[Block, Block]:
    """Return 64-bit offsets and bytes of rows. `fields`: width, length bits, offsets, data of each member."""

def shred_items(
    def_: _Bytes | None,
    num_entries: int,
    validity: _Bytes | None,
    first_bit: int,
    num_slots: int,
    null: int,
    dead: int,
) -> Block: ...
def shred_lists(
    rep: _Bytes | None,
    def_: _Bytes | None,
    num_entries: int,
    offsets: _Bytes,
    offset_bits: int,
    num_slots: int,
    validity: _Bytes | None,
    first_bit: int,
    null: int,
    empty: int,
    rep_level: int,
    dead: int,
) -> tuple[Block, Block, int]:
    """Return repetition levels, definition levels, number of entries."""

def repeat_levels(levels: _Bytes, times: int) -> Block: ...
def count_levels(levels: _Bytes, highest: int) -> list[int]: ...
def map_levels(levels: _Bytes, map: Sequence[int]) -> Block: ...
def encode_levels(levels: _Bytes, coding: tuple[str, int]) -> Block: ...
def count_changes(levels: _Bytes) -> int:
    """Count the levels that differ from the level before them."""

def train_symbols(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, sample_bytes: int
) -> Block:
    """Return an FSST symbol table trained on these values."""

def compress_symbols(
    table: _Bytes, offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int
) -> tuple[Block, Block]: ...
def try_symbols(
    table: _Bytes, offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, sample_bytes: int
) -> tuple[int, int]:
    """Return the bytes of the codes of a sample, and the bytes of the sample."""

def choose_chunks(
    positions: _Bytes, first_values: _Bytes, values: _Bytes, base: int
) -> tuple[Block, Block, Block, Counts, Block]:
    """Choose the chunks of `values` (all numbers int64).

    Returns position in the file and length of each chunk, start of each chunk in the bytes of all chunks with
    the end, values in each chunk, and the picks.
    """

def choose_row_chunks(
    positions: _Bytes, first_values: _Bytes, first_rows: _Bytes, ended_rows: _Bytes, rows: _Bytes, base: int
) -> tuple[Block, Block, Block, Counts, Counts, Block]:
    """Choose the chunks of rows of a page with lists.

    Returns the results of `choose_chunks` without picks, the rows that begin in each chunk, and three int64
    per row: first and last chosen chunk with entries of the row, and the rows that begin before it in the
    first of them.
    """

def pick_rows(
    rep: _Bytes,
    def_: _Bytes | None,
    num_levels: Counts,
    counts: Counts,
    begun_rows: Counts,
    places: _Bytes,
    max_rep: int,
    max_visible: int,
) -> tuple[Block, Block, Block, int]:
    """Return the levels of chosen rows, the picks of their values, and the number of picks."""

def pick_fixed(stream: Stream, counts: Counts, picks: _Bytes, width: int) -> Block: ...
def pick_bits(stream: Stream, counts: Counts, picks: _Bytes) -> Block: ...
def pick_inline(stream: Stream, counts: Counts, picks: _Bytes, word_bits: int) -> Block: ...
def pick_variable(stream: Stream, counts: Counts, picks: _Bytes, offset_bits: int) -> tuple[Block, Block]: ...
def pick_levels(stream: Stream, counts: Counts, picks: _Bytes, coding: str, bits: int) -> Block: ...
def find_distinct(
    offsets: _Bytes | None,
    data: _Bytes,
    offset_bits: int,
    width: int,
    num_values: int,
    validity: _Bytes | None,
    first_bit: int,
    max_items: int,
) -> tuple[Block, list[int]] | None:
    """Return indices of 32 bits and the first position of each item; None if there are more than
    `max_items`.
    """

def sample_distinct(
    offsets: _Bytes | None,
    data: _Bytes,
    offset_bits: int,
    width: int,
    num_values: int,
    validity: _Bytes | None,
    first_bit: int,
    step: int,
    most: int,
) -> tuple[int, int]:
    """Sample every `step`-th value, at most `most`. Return the number of valid and of distinct values."""

class MiniBlocks:
    """The description of mini-block pages, without their chunks."""

    def __init__(
        self,
        num_rows: int,
        positions: _Bytes,
        lengths: _Bytes,
        first_values: _Bytes,
        large: bool,
        compression: str,
        coding: str,
        bits: int,
        def_: tuple[str, int] | None,
        max_def: int,
        has_nulls: bool,
        symbols: SymbolTable | None,
        items: tuple[_Bytes | None, _Bytes, int, int] | None,
    ) -> None:
        """Describe pages. `items`: offsets and bytes of dictionary items, their number, and the bits of an
        offset. Items of one width have no offsets, and the bits are those of an item.
        """

    @property
    def can_take(self) -> bool:
        """Whether `take_rows` can take rows of these pages."""

    @property
    def items(self) -> tuple[_Bytes | None, _Bytes, int, int] | None:
        """The dictionary items that the pages were described with."""

    def set_lists(
        self,
        first_rows: _Bytes,
        ended_rows: _Bytes,
        rep: tuple[str, int],
        null: int,
        empty: int,
        upper: int,
        shown: int,
        max_visible: int,
        depth_of: _Bytes,
        offset_bits: int,
    ) -> None:
        """Describe the lists that contain the values."""

class FlatPage:
    """The description of a page of a 2.0 file: values as they are in memory, strings, or lists of these."""

    def __init__(
        self,
        num_rows: int,
        bits: int,
        values: tuple[int, int],
        validity: tuple[int, int] | None = None,
        text: tuple[tuple[int, int], int, int] | None = None,
        items: tuple[_Bytes, _Bytes, int, int] | None = None,
        lists: tuple[list[FlatPage], Sequence[int], int, int, int, int] | None = None,
    ) -> None:
        """Describe a page. A place is an offset in the file and a number of bytes.

        Args:
            num_rows: Number of rows.
            bits: Bits of a value, of the end of a string or of a list (64), or of an index.
            values: Place of the values, ends or indices.
            validity: Place of the bitmap of the rows that are not null.
            text: Place of the bytes of strings, what is added to the end of a null, and the bits of an
                offset.
            items: Offsets and bytes of the strings that indices name, their number, and the bits of an
                offset. Index 0 is null, and its string is empty.
            lists: Pages of the column of the items, the first item of each in that column and the end of the
                last one, the first item of this page, the number of its items, what is added to the end of
                a null, and the bits of an offset. The pages of the items hold no lists.
        """

    @property
    def items(self) -> tuple[_Bytes, _Bytes, int, int] | None:
        """The strings that the page was described with."""

def decode_rows(
    pieces: Sequence[tuple[MiniBlocks | FlatPage, PieceReader, int, int]],
    kept: Sequence[tuple[_Numbers, int] | None],
) -> list[tuple[int, int, Block | None, Block, Block | None, Block | None, Block | None] | None]:
    """Read and decode rows of pages. A piece is pages, their file, and the first and end row.

    Args:
        kept: For each piece the wanted rows, which are ascending int64 numbers, and the number that its first
            row has among these; None if all rows are wanted.

    Returns for each piece the number of the first wanted value, the number of wanted values, validity of the
    values, values or offsets, bytes, offsets and validity of the lists; None if the kernel could not decode
    it.
    """

def decode_masked(
    pieces: Sequence[tuple[MiniBlocks | FlatPage, PieceReader, int, int]], mask: _Bytes, starts: Sequence[int]
) -> list[tuple[int, int, Block | None, Block, Block | None, Block | None, Block | None] | None]:
    """Read and decode rows of values of fixed width, and keep those whose bits of a bitmap are set.

    Args:
        pieces: As in `decode_rows`.
        mask: The bitmap.
        starts: For each piece the bit of its first row.

    Returns what `decode_rows` returns.
    """

def match_intervals(
    piece: tuple[MiniBlocks | FlatPage, PieceReader, int, int],
    bits: int,
    is_float: bool,
    bounds: Sequence[tuple[int, int, bool]],
    is_outside: bool,
) -> tuple[Block, int] | None:
    """Compare numbers of a piece of `decode_rows` with intervals, without keeping the decoded numbers.

    Args:
        bits: Bits of a number: 8, 16, 32 or 64; 32 or 64 of a float.
        bounds: The bounds of each interval, both included, as unsigned integers of the same bytes, the upper
            one not below the lower one; and whether floats above the upper one, and NaN, are in the interval,
            too.
        is_outside: Whether the numbers outside all intervals match instead.

    Returns a bitmap of the rows that match, and their number. Nulls do not match. None if the kernel cannot
    decode the pages.
    """

class NumberSet:
    """A set of integers in which many integers are looked up."""

    def __init__(self, numbers: _Numbers, bits: int) -> None:
        """Make a set of numbers of 8, 16, 32 or 64 bits, signed or not, in any order."""

    def find(self, numbers: _Numbers) -> Block:
        """Return a bitmap of the numbers, of the same bits, that are in the set."""

def match_listed(
    piece: tuple[MiniBlocks | FlatPage, PieceReader, int, int], numbers: NumberSet, is_outside: bool
) -> tuple[Block, int] | None:
    """Return which rows of a piece have numbers of a set, or none of it if `is_outside`; see
    `match_intervals`.
    """

def match_remainder(
    piece: tuple[MiniBlocks | FlatPage, PieceReader, int, int],
    bits: int,
    is_signed: bool,
    divisor: int,
    rest: int,
    is_outside: bool,
) -> tuple[Block, int] | None:
    """Return which rows of a piece have the remainder `rest`, given in the bits of the integers; or if
    `is_outside`, another remainder. See `remainders` and `match_intervals`.
    """

def match_items(
    piece: tuple[MiniBlocks | FlatPage, PieceReader, int, int], items: _Bytes, null: bool
) -> tuple[Block, int] | None:
    """Return which rows of pages with a dictionary have an item that matches; see `match_intervals`.

    `items` has a byte per item: 1 if it matches, else 0. `null` says whether null matches, where rows
    without an item are null. (In a `FlatPage` they have item 0.)
    """

def decode_batches(
    pieces: Sequence[tuple[MiniBlocks | FlatPage, PieceReader, int, int]], cuts: _Bytes
) -> ArrowRows:
    """Read and decode columns of the same rows, one piece per column, for Arrow to import at once.

    `cuts` (int64, from 0 to the number of rows) are the starts and ends of batches.
    """

class ColumnPages:
    """The pages of a column of one file."""

    def __init__(self, pages: list[MiniBlocks | FlatPage | None], starts: _Bytes, file: PieceReader) -> None:
        """Describe the pages. `starts` (int64) has the first row of each page, and the number of rows.

        A page that is not known is None; its rows cannot be taken.
        """

    @property
    def pages(self) -> list[MiniBlocks | FlatPage | None]:
        """The list of pages that was given."""

    def unknown(self, rows: _Bytes) -> list[int]:
        """Return the numbers of the unknown pages that have some of the rows (int64, in any order)."""

class ArrowRows:
    """Columns of rows, read and decoded by one call, for Arrow to import."""

    @property
    def is_there(self) -> list[bool]:
        """Whether each requested column could be decoded."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the values of all batches, counted like `lance_core.scan.read.value_sizes`."""

    @property
    def largest_bits(self) -> int:
        """Bits of the values of the largest batch of more than one row; 0 if there is none."""

    @property
    def address(self) -> int:
        """Address of an `ArrowArray` of Arrow's C data interface: a struct of the decoded columns.

        It may be imported once. The importer keeps this object alive until then.
        """

def take_rows(
    parts: Sequence[tuple[Sequence[ColumnPages], _Bytes, _Bytes | None]], num_columns: int, num_rows: int
) -> ArrowRows:
    """Read and decode single rows of columns without lists.

    A part is the columns of a file, rows (int64, in any order), and their places among the `num_rows` rows of
    the result. Without places they are the whole result.
    """

class StoredVectors:
    """Vectors or codes of the rows of a partition, and a query with which they are compared one by one."""

    def __len__(self) -> int: ...
    @staticmethod
    def plain(metric: str, vectors: _Numbers, query: _Numbers) -> StoredVectors:
        """Vectors of float32, for `l2` or `dot`, or of bytes, for `hamming`."""

    @staticmethod
    def scalar_codes(codes: _Numbers, query: _Numbers, scale: float) -> StoredVectors:
        """Codes of one byte per dimension, compared by squared distances of codes times `scale`."""

    @staticmethod
    def scalar_products(codes: _Numbers, query: _Numbers, scale: float, offset: float) -> StoredVectors:
        """Codes of one byte per dimension, compared by products with a query of float32, times `scale`."""

    @staticmethod
    def product_codes(
        codes: _Numbers, table: _Numbers, num_sub_vectors: int, bits: int, scale: float, offset: float
    ) -> StoredVectors:
        """Codes of sub-vectors, row after row; see `lookup_table` for the table."""

class Graph:
    """Graph (HNSW) over the rows of a partition."""

    def __init__(
        self, num_nodes: int, entry: int, levels: Sequence[tuple[_Numbers, _Numbers, _Numbers]]
    ) -> None:
        """Check and copy the levels, level 0 first.

        A level has its nodes, where the neighbours of each begin, and all neighbours: arrays of uint32.
        """

    @staticmethod
    def build(vectors: StoredVectors, max_neighbors: int, beam_width: int, max_levels: int) -> Graph:
        """Build a graph. Level 0 has up to `2 * max_neighbors` neighbours of a node."""

    @property
    def entry(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def levels(self) -> list[tuple[Block, Block, Block]]:
        """Return the levels in the form that the constructor takes."""

class KeySet:
    """A set of row keys that is asked for many keys at once."""

    def __init__(self, keys: _Numbers) -> None:
        """Make a set of ascending keys (uint64)."""

    def flags(self, keys: _Numbers) -> Block:
        """Return for each key (uint64) a byte: 1 if the key is in the set, else 0."""

class BestRows:
    """The rows with the smallest distances to a query, at most `count`; of equal distances the smallest keys.

    Distances that are NaN, below `lower`, or not below `upper` are left out. The methods offer the rows of a
    partition: `keys` are uint64, `allowed` has a byte per row that is 0 for rows to leave out.
    """

    def __init__(self, count: int, lower: float | None = None, upper: float | None = None) -> None: ...
    def __len__(self) -> int: ...
    @property
    def are_distinct(self) -> bool:
        """Whether no two of the rows have the same key."""

    def scan_plain(self, keys: _Numbers, allowed: _Numbers | None, vectors: StoredVectors) -> None:
        """Offer all rows with their distances."""

    def search_graph(
        self, keys: _Numbers, allowed: _Numbers | None, vectors: StoredVectors, graph: Graph, width: int
    ) -> None:
        """Offer the nearest rows that a walk through the graph with a beam of `width` rows finds.

        If fewer than a tenth of the rows are allowed, all allowed rows are offered instead.
        """

    def merge(self, other: BestRows) -> None:
        """Offer the rows of another collection."""

class QueriedRows:
    """The rows of a partition, and the queries that search it. Keeps the buffers, and does not copy them."""

    def __init__(
        self,
        keys: _Numbers,
        codes: _Numbers,
        queries: _Numbers,
        allowed: _Numbers | None = None,
        partition: int = 0,
        row_scales: _Numbers | None = None,
        row_offsets: _Numbers | None = None,
        shifts: _Numbers | None = None,
        offsets: _Numbers | None = None,
        shares: _Numbers | None = None,
    ) -> None:
        """Name the rows, whose distances are `(sum + shift) * row_scale + (row_offset * share + offset)`.

        Args:
            keys: uint64, one per row.
            codes: Codes or vectors in the layout of the scan.
            queries: uint32, numbers of the queries.
            allowed: A byte per row that is 0 for rows to leave out. None: all rows are allowed.
            partition: Number of the partition.
            row_scales: float32, one per row. None: the scale of the scan.
            row_offsets: float32, one per row, exactly if there are scales of rows.
            shifts: float32, one per query. None: 0.
            offsets: float32, one per query, added to the offset of the scan. None: 0.
            shares: float32, one per query. None: 1.
        """

def scan_compared(
    best: Sequence[BestRows],
    rows: Sequence[QueriedRows],
    comparison: Comparison,
    scale: float = 1.0,
    offset: float = 0.0,
) -> None:
    """Offer rows to the best rows of their queries, with the distances of `comparison`, times `scale`.

    The queries of `comparison` are compared one by one. Its vectors are the codes, row after row.
    """

def scan_lookups(
    best: Sequence[BestRows],
    rows: Sequence[QueriedRows],
    tables: _Numbers,
    num_sub_vectors: int,
    bits: int,
    scale: float = 1.0,
    offset: float = 0.0,
) -> None:
    """Offer rows to the best rows of their queries, with the sums of the table entries that codes select.

    Args:
        best: One for each query.
        rows: The codes are in blocks of 64 rows, the last one of fewer. A block has the first bytes of its
            rows, then their second bytes, ...
        tables: float32, [query][sub-vector][code].
        num_sub_vectors: Number of sub-vectors.
        bits: Bits of a code, 4 or 8.
        scale: Scale of rows that have no scales of their own.
        offset: Added to all distances.
    """

def scan_product_codes(
    best: Sequence[BestRows],
    rows: Sequence[QueriedRows],
    queries: _Numbers,
    codebook: _Numbers,
    num_sub_vectors: int,
    bits: int,
    scale: float,
    offset: float,
    centroids: _Numbers | None = None,
) -> None:
    """Offer rows to the best rows of their queries: `scan_lookups` with tables that it makes.

    Args:
        best: One for each query.
        rows: See `scan_lookups`.
        queries: float32, one after the other.
        codebook: See `lookup_table`.
        num_sub_vectors: See `scan_lookups`.
        bits: See `scan_lookups`.
        scale: See `scan_lookups`.
        offset: See `scan_lookups`.
        centroids: Centroid of each partition, float32. Codes are those of the differences to the centroid,
            and the tables are those for `l2`. Without centroids they are those for `dot`, of the queries
            themselves.
    """

def sorted_rows(best: Sequence[BestRows]) -> tuple[Block, Block, list[int]]:
    """Return the keys (uint64) and the distances (float32) of all best rows, and their numbers.

    The rows of the first query come first. Those of a query are in order, nearest first.
    """

def lookup_table(metric: str, query: _Numbers, codebook: _Numbers, num_sub_vectors: int) -> Block:
    """Return the terms of distances: squared distances for `l2`, negative products for `dot`.

    Args:
        metric: `l2` or `dot`.
        query: float32.
        codebook: Codewords of each sub-vector, dimension by dimension: [sub-vector][dimension][codeword].
        num_sub_vectors: Number of sub-vectors.

    Returns:
        float32, [sub-vector][codeword].
    """

def nearest_centroids(
    metric: str, vectors: _Numbers, stride: int, start: int, dimension: int, centroids: _Numbers
) -> tuple[Block, Block]:
    """Return the number of the nearest centroid of each vector (uint32), and its distance (float32).

    Args:
        metric: `l2`, or `dot`, for which the centroid with the largest product is nearest.
        vectors: float32, `stride` numbers per vector.
        stride: Numbers of a whole vector.
        start: First number of the part of each vector that is compared.
        dimension: Length of this part.
        centroids: float32, `dimension` numbers each.
    """

def sum_clusters(
    vectors: _Numbers, stride: int, start: int, dimension: int, clusters: _Numbers, num_clusters: int
) -> tuple[Block, Block]:
    """Return the sum (float64) of the vectors of each cluster, and their number (int64).

    `clusters` has the cluster of each vector (uint32); the other arguments are those of `nearest_centroids`.
    """

def code_sizes(vectors: _Numbers, dimension: int, bits: int) -> Block:
    """Return a number of `bits` bits for each element of rotated vectors, one byte each.

    An element stands for its number plus one half, times a scale of its vector. The number of a negative
    element is the complement of that of its size.
    """

class WordReader:
    """Divides texts into words, and numbers the distinct words in the order of their first occurrence."""

    def __init__(
        self,
        splitting: str,
        letters: _Bytes | None,
        min_ngram: int,
        max_ngram: int,
        prefixes_only: bool,
        max_bytes: int | None,
        lower_ascii: bool,
    ) -> None:
        """Choose how texts are divided.

        `splitting`: "letters" (words are runs of the characters in the bitmap `letters` of all code points),
        "blanks" (of ASCII), "whole" (a text is a word) or "ngrams" (all sequences of `min_ngram` to
        `max_ngram` characters, or only those at the beginning). Words of `max_bytes` bytes or more are
        left out.
        `lower_ascii`: the letters A to Z become a to z.
        """

    def read(
        self,
        data: _Bytes | None,
        offsets: _Bytes,
        offset_bits: int,
        num_texts: int,
        document_ends: _Bytes | None,
    ) -> tuple[Block, Block, Block]:
        """Read texts. `document_ends` (int64) ends each document, a run of texts; None: each text is one.

        Returns the number of each word (uint32), its position in its document (uint32), and the end of each
        document in the words (int64).
        """

    @property
    def num_words(self) -> int:
        """Number of distinct words so far."""

    @property
    def num_bytes(self) -> int:
        """Memory of the distinct words."""

    def words(self, first: int) -> tuple[Block, Block]:
        """Return the distinct words from number `first` on: int64 offsets, and bytes."""

class TermCollector:
    """Gathers the terms of documents, and makes posting lists of them."""

    def __init__(self, with_positions: bool, format: int = 2) -> None:
        """Begin without documents. `format` is that of the index file, 1 or 2."""

    def add(self, words: _Bytes, positions: _Bytes | None, ends: _Bytes, terms: _Bytes) -> Block:
        """Add documents as `WordReader.read` returns them. `terms` (int32) has the term of each word, or -1.

        Returns the number of terms of each document (uint32). Documents without terms get no number.
        """

    @property
    def num_documents(self) -> int:
        """Number of documents with terms."""

    @property
    def num_bytes(self) -> int:
        """Memory of the gathered terms."""

    def sort(self, order: _Bytes | None, ranks: _Bytes) -> None:
        """End the gathering. `order` (uint32) has the documents in their new order, `ranks` (uint32) the new
        number of each term.
        """

    def encode(
        self, first: int, end: int
    ) -> tuple[Block, Block, Block, Block, Block, Block, Block, Block, Block]:
        """Return the posting lists of the terms `[first, end)`: of fewer terms, at least one, if their lists
        are large. Ascending calls are fastest.

        Blocks of all lists; end of each block (int64); number of blocks up to the end of each list (int32);
        bounds of the scores (float32); lengths (uint32); positions; end of the positions of each list
        (int64); start of the positions of each block (uint32). In format 1, positions are strings, and the
        last three are: end of each string (int64); nothing; number of strings up to the end of each document
        (int64).
        """

def find_key(map: _Bytes, key: _Bytes) -> int | None:
    """Return the value of a key of a map in the format of the Rust crate `fst`, None if it is not there."""

def expand_map(map: _Bytes, max_bytes: int) -> tuple[Block, Block, Block]:
    """Return the keys of a map, ascending: int64 offsets, and bytes; and their values (uint32)."""

def build_map(offsets: _Bytes, data: _Bytes | None, values: _Bytes) -> Block:
    """Return a map of ascending keys (int64 offsets) with their values (uint32)."""

def similar_terms(
    offsets: _Bytes, data: _Bytes | None, term: _Bytes, distance: int, prefix_bytes: int, limit: int
) -> list[int]:
    """Return the numbers of the first `limit` ascending terms (int64 offsets) within an edit distance."""

class Postings:
    """A posting list: documents with the frequency of a term, in blocks that are decoded when needed."""

    def __init__(
        self,
        data: _Bytes,
        ends: _Bytes,
        length: int,
        num_documents: int,
        block_size: int,
        fixed_tail: bool,
    ) -> None:
        """Describe a list of `length` documents in blocks that end at `ends` (int64). All documents are less
        than `num_documents`.
        """

    def __len__(self) -> int: ...
    def decode(self) -> tuple[Block, Block]:
        """Return the documents and the frequencies (uint32)."""

def decode_positions(
    data: _Bytes | None, block_starts: _Bytes, frequencies: _Bytes, block_size: int, packed: bool
) -> Block:
    """Return the positions (uint32) of a term, document by document; `block_starts` are uint32."""

def decode_position_lists(
    data: _Bytes | None, ends: _Bytes, document_ends: _Bytes, frequencies: _Bytes
) -> Block:
    """Return the positions (uint32) of a term from byte strings per document; ends are int64."""

def match_phrase(words: Sequence[tuple[_Bytes, _Bytes, _Bytes, int]], slop: int) -> Block:
    """Return the documents (uint32) that have a phrase.

    A word of the phrase is its documents, their frequencies, its positions (uint32), and its place.
    """

def best_documents(
    terms: Sequence[tuple[Postings, float, int]],
    norms: _Bytes,
    norm_key: float,
    allowed: _Bytes | None,
    required_words: int,
    limit: int | None,
) -> tuple[Block, Block]:
    """Return the documents (uint32) with the best scores (float32), best first.

    A term has its posting list, its weight, and the number of the word that it stands for. A score is the sum
    of weight * 2.2 * f / (f + norm). `norms` (float32) and `allowed` (bytes, 0 leaves out) have an entry per
    document; norms with equal keys are equal. Documents need terms of all `required_words` words, if this is
    not 0.
    """

# Building of indices.

def sort_rows(values: Sequence[_Bytes], rows: Sequence[_Bytes]) -> Block:
    """Sort pairs of a value and a row key (uint64), which come in parts, by value.

    Returns all values in order, and then their row keys. Pairs with equal values keep their order.
    """

def sort_variable(
    offsets: _Bytes, data: _Bytes, rows: _Bytes, num_values: int, offset_bits: int
) -> tuple[Block, Block, Block]:
    """Sort strings of bytes, and their row keys (uint64). Rows with equal strings keep their order.

    Returns the offsets and the bytes of the strings in order, and their row keys.
    """

class SetCollector:
    """Gathers sets of row keys by value, in the memory that the stored sets need.

    The values are numbers (uint64) if `offset_bits` is 0, and else strings of bytes with such offsets. The
    rows may come in any order and repeat; ascending row keys are gathered fast. For one thread at a time.
    """

    def __init__(self, offset_bits: int) -> None: ...
    def add(self, offsets: _Bytes | None, values: _Bytes, rows: _Bytes) -> None:
        """Add rows: their values, and their row keys (uint64)."""

    @property
    def num_bytes(self) -> int:
        """Memory of what was gathered."""

    @property
    def num_values(self) -> int:
        """Number of distinct values."""

    def finish(self) -> None:
        """End the gathering."""

    def sets(self, first: int, most_bytes: int, is_tree_map: bool) -> tuple[int, Block, Block, Block, Block]:
        """Return the sets of ascending values, from the value `first` on; call it after `finish`.

        They have about `most_bytes`, at least one set. The result is their number, the offsets (empty for
        numbers) and bytes of the values, and 32-bit offsets and bytes of the sets, which are serialized as
        tree maps or as 64-bit maps; see `lance_core.index.row_sets`. Raises `OffsetOverflow` if a set has
        more than 2 GiB.
        """

def unite_row_sets(ends: _Bytes, offsets: _Bytes, data: _Bytes, is_tree_map: bool) -> tuple[Block, Block]:
    """Unite groups of consecutive sets that `SetCollector.sets` returned.

    `ends` (int64) has the end of each group in the sets, which have 32-bit offsets. Returns 32-bit offsets
    and bytes. Raises `OffsetOverflow` for more than 2 GiB.
    """

def bloom_filter(
    offsets: _Bytes | None,
    data: _Bytes,
    offset_bits: int,
    width: int,
    validity: _Bytes | None,
    first_bit: int,
    start: int,
    num_values: int,
    num_blocks: int,
) -> Block:
    """Return the split block Bloom filter of the values `[start, start + num_values)` that are not null.

    The values have `width` bytes each, or offsets of `offset_bits` if that is not 0. The validity of the
    value at `start` is at bit `first_bit + start`.
    """

def find_trigrams(offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int) -> tuple[Block, Block]:
    """Return the distinct trigrams (uint32) of each text, and the positions of the texts (uint32)."""

def xxhash64(data: _Bytes) -> int:
    """Return the hash of bytes that Bloom filters use."""

def hash_strings(offsets: _Bytes, data: _Bytes | None, offset_bits: int) -> Block:
    """The 64-bit xxHash (seed 0) of each byte string, as uint64.

    String i is `[offsets[i], offsets[i + 1])` of the data. The offsets have 32 or 64 bits.
    """

def search_strings(
    offsets: _Bytes,
    data: _Bytes | None,
    offset_bits: int,
    needle_offsets: _Bytes,
    needle_data: _Bytes | None,
    needle_bits: int,
    after: bool,
) -> Block:
    """For each needle the number of strings below it, or with `after` not above it, as int64.

    The strings ascend by their bytes. Strings and needles are those of `hash_strings`.
    """

class Comparison:
    """Queries, and how they are compared with the vectors of a column; thread-safe.

    Distances are float32: `l2` is squared, `cosine` is 1 - cosine (NaN if a vector has only zeros), `dot` is
    1 - product, `hamming` is the number of different bits, `product` is the product itself.
    """

    def __init__(
        self, queries: _Bytes, dimension: int, element: str, metric: str, one_by_one: bool = False
    ) -> None:
        """Copy queries of `dimension` elements each.

        `element` is the type of the column: float16, bfloat16, float32, float64, uint8, int8 or uint16.
        Queries are float64 for float64, bytes for the metric `hamming`, which compares uint8 only, and else
        float32. With `one_by_one`, the distances of a query do not depend on the other queries. Without it,
        the distances of 8 or more queries may have other last digits, and short vectors are compared faster.
        """

    @property
    def num_queries(self) -> int: ...
    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector of the column."""

def nearest_vectors(
    comparison: Comparison,
    vectors: _Bytes,
    k: int,
    validity: _Bytes | None = None,
    first_bit: int = 0,
    rows: _Bytes | None = None,
    keys: _Bytes | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> tuple[Block, Block, list[int]]:
    """Return the at most `k` nearest vectors of each query.

    `validity` has a bit per vector as in Arrow, from `first_bit` on; vectors that are null or whose distance
    is NaN are left out. `rows` (int64) are the vectors to compare, None all of them. Of equal distances the
    vector with the smallest of `keys` (uint64) comes first, or the first vector. `lower` is inclusive,
    `upper` exclusive.

    Returns the rows (int64) and distances (float32) of the first query, nearest first, then those of the next
    query and so on, and the number of rows of each query.
    """

def nearest_in_file(
    comparison: Comparison,
    reader: PieceReader,
    offset: int,
    stride: int,
    num_vectors: int,
    k: int,
    rows: _Bytes | None = None,
    keys: _Bytes | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> tuple[Block, Block, list[int]] | None:
    """Return the nearest vectors of a range of a file, without a copy of the range; see `nearest_vectors`.

    The first vector begins at `offset`, each next one `stride` bytes later. Returns None if the file is not
    mapped, or is shorter now than when it was opened: the vectors have to be read then.
    """

class PlainPages:
    """The vectors of a column of one file: pages in which one vector follows the other, without nulls."""

    def __init__(self, starts: _Bytes, offsets: _Bytes, stride: int, file: PieceReader) -> None:
        """Describe the pages.

        Args:
            starts: The first row of each page, and the number of rows (int64).
            offsets: Offset of each page in the file (int64).
            stride: Bytes of a vector.
            file: Reads the file.
        """

    @property
    def stride(self) -> int: ...

def distances_in_files(
    comparison: Comparison, parts: Sequence[tuple[PlainPages, _Bytes, _Bytes]], num_rows: int
) -> Block | None:
    """Return the distances of rows of several files like `vector_distances`, without a copy of the vectors.

    A part is the pages of a file, rows (int64, in any order), and their places among the `num_rows` rows of
    the result. Returns None if a file is not mapped, or is shorter now than when it was opened: the vectors
    have to be read then.
    """

def vector_distances(
    comparison: Comparison, vectors: _Bytes, validity: _Bytes | None = None, first_bit: int = 0
) -> Block:
    """Return all distances (float32), first those of the first query. Null vectors have NaN."""
