# Types of the compiled module. `_Bytes` is anything with the buffer protocol; arrays of numbers are
# little-endian int64.
# Every function raises CorruptData when the bytes contradict the format.

from collections.abc import Sequence

from typing_extensions import Buffer as _Bytes

class CorruptData(ValueError): ...  # noqa: N818
class OffsetOverflow(OverflowError): ...  # noqa: N818

class Block:
    """Memory from the pool, with the buffer protocol."""

    def __init__(self, num_bytes: int) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class PieceReader:
    """Reads byte ranges of one local file; thread-safe."""

    def __init__(self, descriptor: int, file_bytes: int, max_gap: int, map_after: int) -> None:
        """Once `map_after` ranges were read, short ones are copied out of a map of the file.

        The descriptor stays open during reads.
        """

    def read(self, parts: Sequence[tuple[_Bytes, _Bytes]]) -> tuple[list[Block], int, int]:
        """The bytes of the ranges of each part (int64 offsets and lengths), one after the other.

        Beside them an errno, or 0, and where the file ended too early, or -1.
        """

class Counts:
    """Number of values in each chunk of a row of chunks."""

    def __init__(self, values: _Bytes) -> None: ...
    @property
    def total(self) -> int: ...
    def __len__(self) -> int: ...
    def scaled(self, factor: int) -> Counts:
        """Each count times `factor`."""

class Stream:
    """The same buffer of each of a row of chunks."""

    def __init__(self, data: _Bytes, offsets: _Bytes, lengths: _Bytes) -> None: ...
    def __len__(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def chunks(self) -> list[bytes]:
        """Copies of all chunks, for codecs that live in libraries."""

class ArrayBuilder:
    """Joins slices of arrays of one type, copying each once."""

    def __init__(self, value_bits: int, offset_bits: int, expected_bytes: int) -> None:
        """Values of `value_bits`, or under offsets of `offset_bits`; with neither, validity alone."""

    def append(
        self,
        num_values: int,
        first: int,
        validity: _Bytes | None,
        values: _Bytes | None = None,
        data: _Bytes | None = None,
    ) -> None:
        """The values from `first` on of an array; `values` are the offsets where it has some."""

    def finish(self) -> tuple[int, int, Block, Block, Block]:
        """Number of values, number of nulls, validity (where there are nulls), values or offsets, data."""

class LevelBuilder:
    """Joins levels (u16); entries without any have zeros."""

    def __init__(self, expected_bytes: int) -> None: ...
    def append(self, first: int, num_entries: int, levels: _Bytes) -> None:
        """The levels of the entries from `first` on."""

    def finish(self, num_entries: int) -> Block | None:
        """Those of all entries; None where none had any."""

class SymbolTable:
    """A parsed FSST symbol table."""

    def __init__(self, table: _Bytes, way: str | None = None) -> None:
        """`way`: one of `expand_ways`, the fastest by default. ValueError for another."""

    @property
    def codes(self) -> bool:
        """False where values are stored as plain text."""

def pool_use() -> tuple[int, int]:
    """Bytes in blocks that are alive, and bytes kept for reuse."""

def set_pool_retention(num_bytes: int) -> None:
    """How many bytes of large blocks may be kept for reuse."""

def locate_chunks(words: _Bytes, large: bool, num_values: int, num_bytes: int) -> tuple[Block, Block]:
    """Byte positions and first values (int64) of the chunks of a page of `num_values`, each with one more."""

def parse_chunks(
    data: _Bytes,
    offsets: _Bytes,
    counts: Counts,
    has_rep: bool,
    has_def: bool,
    num_buffers: int,
    large: bool,
) -> tuple[Counts, Stream, Stream, list[Stream]]:
    """Headers of mini-block chunks: levels per chunk, repetition levels, definition levels, value buffers."""

def join_fixed(stream: Stream, counts: Counts, width: int) -> Block: ...
def join_bits(stream: Stream, counts: Counts) -> Block: ...
def copy_bits(bits: _Bytes, start: int, num_bits: int) -> Block: ...
def bytes_to_bits(values: _Bytes) -> Block: ...
def repeat_value(value: _Bytes, num_values: int) -> Block: ...
def unpack_inline(stream: Stream, counts: Counts, word_bits: int) -> Block: ...
def unpack_out_of_line(stream: Stream, counts: Counts, word_bits: int, bits: int) -> Block: ...
def expand_runs(values: Stream, lengths: Stream, counts: Counts, word_bits: int) -> Block: ...
def split_runs(blocks: Stream, counts: Counts) -> tuple[Stream, Stream]:
    """Run values and run lengths; the runs of a block add up to its count."""

def join_byte_streams(stream: Stream, counts: Counts, width: int) -> Block: ...
def join_variable(stream: Stream, counts: Counts, offset_bits: int) -> tuple[Block, Block]:
    """Offsets and bytes."""

def open_variable_block(block: _Bytes, num_values: int, offset_bits: int) -> tuple[int, int, int, int]:
    """Start and size of the offsets, start and size of the bytes."""

def json_text(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int
) -> tuple[Block, Block]:
    """32-bit offsets and UTF-8 text of binary JSON values that have 64-bit offsets."""

def json_binary(
    offsets: _Bytes, data: _Bytes, validity: _Bytes | None, first_bit: int, num_values: int
) -> tuple[Block, Block]:
    """64-bit offsets and the binary form of JSON text that has 64-bit offsets: the reverse of `json_text`."""

def repeat_variable(value: _Bytes, num_values: int, offset_bits: int) -> tuple[Block, Block]: ...
def expand_ways() -> list[str]:
    """Names of the ways to expand symbols that this processor has, the fastest first, "portable" last."""

def expand_symbols(
    table: SymbolTable, stream: Stream, counts: Counts, offset_bits: int
) -> tuple[Block, Block]: ...
def expand_symbol_values(
    table: SymbolTable, offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int
) -> tuple[Block, Block]: ...
def inflate(chunks: Stream, compression: str) -> Stream:
    """What "lz4" or "zstd" made chunks of; "none" made nothing of them."""

def inflate_values(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, compression: str
) -> tuple[Block, Block]:
    """The same for values under Arrow offsets, each compressed by itself: their offsets and bytes."""

def decode_levels(stream: Stream, counts: Counts, coding: str, bits: int) -> Block:
    """`coding` is "flat", "inline", "packed" (in `bits` bits) or "runs"."""

def decode_validity(
    stream: Stream, counts: Counts, coding: str, bits: int, limit: int, highest: int
) -> tuple[Block, int]:
    """A bitmap of levels that are at most `limit`, and how many are above; none may be above `highest`."""

def find_rows(
    rep: _Bytes, def_: _Bytes | None, max_rep: int, max_visible: int, skip_rows: int, num_rows: int
) -> tuple[int, int, int, int, int]:
    """First and end entry, first and end value of the rows; number of values in all."""

def item_validity(def_: _Bytes, depth_of: _Bytes, depth: int, limit: int) -> tuple[Block, int, int]:
    """Bitmap, number of slots, number of nulls."""

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
    """Offsets, bitmap, lists, nulls, items; levels of the next layer if asked for."""

def unzip_fixed(
    data: _Bytes, rep_bits: int, def_bits: int, max_visible: int, width: int
) -> tuple[Block, Block, int, Block, int]:
    """Repetition levels, definition levels, entries, values, number of values."""

def unzip_variable(
    data: _Bytes, rep_bits: int, def_bits: int, max_visible: int, length_bits: int
) -> tuple[Block, Block, int, Block, Block, int]:
    """Repetition levels, definition levels, entries, offsets, bytes, number of values."""

def check_indices(indices: _Bytes, num_values: int, index_bits: int, num_items: int) -> None: ...
def gather_fixed(indices: _Bytes, num_values: int, index_bits: int, items: _Bytes, width: int) -> Block: ...
def gather_bits(
    indices: _Bytes, num_values: int, index_bits: int, bits: _Bytes, num_items: int
) -> tuple[Block, int]:
    """Bitmap, and how many bits of it are not set."""

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
    """Offsets, bitmap (empty without nulls), nulls, and where the values begin and end."""

def unpack_bit_stream(
    data: _Bytes, start: int, num_values: int, bits: int, word_bits: int, is_signed: bool
) -> Block: ...
def split_rows(rows: _Bytes, num_rows: int, widths: list[int]) -> list[Block]: ...
def join_row_bits(rows: _Bytes, num_rows: int, bits_per_row: int) -> Block: ...
def split_variable_rows(
    offsets: _Bytes, data: _Bytes, num_rows: int, offset_bits: int, fields: list[tuple[int, int]]
) -> list[tuple[Block, Block]]:
    """Per field (width, length bits): values and nothing, or offsets and bytes."""

def fixed_zones(
    values: _Bytes,
    validity: _Bytes | None,
    start: int,
    num_values: int,
    rows_per_zone: int,
    order: str,
    width: int,
) -> tuple[Block, Block, Block, Block, Block]:
    """Statistics of each zone of `rows_per_zone` values of a buffer, from the `start`-th on.

    `order` is "bits" (width 1), "signed", "unsigned", "floats" or "bytes"; `width` is in bytes.

    Returns nulls and NaNs (int64), a byte that is 1 where there are bounds, and the least and greatest values
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
    """Statistics of each zone of strings: nulls (int64), lower bounds and upper bounds.

    Bounds are a byte that is 1 where there is one, int32 offsets, and the bytes. They are at most `limit`
    bytes long: a longer least value is cut, a longer greatest value is cut and then raised.
    """

def crc32c(data: _Bytes, initial: int = 0) -> int:
    """CRC-32C of bytes that follow others whose CRC is `initial`."""

def crc32c_ways() -> list[str]:
    """Names of the ways to a CRC-32C that this processor has, the fastest first, "portable" last."""

def crc32c_by(way: str, data: _Bytes, initial: int = 0) -> int:
    """The same as `crc32c` by one of `crc32c_ways`. ValueError for another."""

def write_checked(descriptor: int, data: _Bytes, crc: int) -> tuple[int, int, int]:
    """Write bytes where a file descriptor stands; `crc` is the CRC-32C of what came before them.

    Returns the number of bytes written, the CRC-32C of them as well, and 0 or the number of the error (errno)
    that kept the rest from being written.
    """

# Writing pages. Codings of levels are "flat", "packed" in some bits, and "runs", each with a number of bits.

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
    """Words, chunks and repetition index of a mini-block page; ChunkOverflow where a chunk gets too large."""

def chunk_variable(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, target_bytes: int, max_values: int
) -> tuple[Counts, Stream]: ...
def compress_lz4(chunks: Stream) -> Stream:
    """Each chunk as a frame: its size (u32) and one LZ4 block."""

def longest_value(offsets: _Bytes, num_values: int, offset_bits: int) -> int: ...
def rebase_offsets(offsets: _Bytes, num_values: int, offset_bits: int) -> Block:
    """The offsets moved to start at zero."""

def pack_inline(values: _Bytes, word_bits: int) -> Stream:
    """A chunk per 1024 values."""

def pack_out_of_line(values: _Bytes, word_bits: int, bits: int) -> Block: ...
def survey_words(values: _Bytes, word_bits: int, is_signed: bool = False) -> tuple[int, int, int, int, int]:
    """Bytes of `pack_inline`, runs of equal values, bits of the largest value; least and greatest word."""

def encode_runs(
    values: _Bytes, word_bits: int, chunk_values: int, chunk_bytes: int
) -> tuple[Counts, Stream, Stream]:
    """Run values and run lengths."""

def split_byte_streams(values: _Bytes, width: int, chunk_values: int) -> Block: ...
def cut_bits(bits: _Bytes, offset: int, counts: Counts) -> Block:
    """Pieces of a bitmap, each starting at a byte."""

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
    """Zipped entries and repetition index."""

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
    """Zipped entries and repetition index."""

def interleave_rows(columns: Sequence[_Bytes], widths: Sequence[int], num_rows: int) -> Block: ...
def join_variable_rows(
    fields: Sequence[tuple[int, int, _Bytes | None, _Bytes | None]],
    num_rows: int,
    validity: _Bytes | None,
    first_bit: int,
) -> tuple[Block, Block]:
    """64-bit offsets and bytes of rows of fields (width, length bits, offsets, data)."""

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
    """Repetition levels, definition levels, entries."""

def repeat_levels(levels: _Bytes, times: int) -> Block: ...
def count_levels(levels: _Bytes, highest: int) -> list[int]: ...
def map_levels(levels: _Bytes, map: Sequence[int]) -> Block: ...
def encode_levels(levels: _Bytes, coding: tuple[str, int]) -> Block: ...
def count_changes(levels: _Bytes) -> int:
    """How many levels differ from the one before them."""

def train_symbols(
    offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, sample_bytes: int
) -> Block:
    """An FSST symbol table made for values like these."""

def compress_symbols(
    table: _Bytes, offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int
) -> tuple[Block, Block]: ...
def try_symbols(
    table: _Bytes, offsets: _Bytes, data: _Bytes, num_values: int, offset_bits: int, sample_bytes: int
) -> tuple[int, int]:
    """Bytes of the codes of a sample, and of the sample."""

def choose_chunks(
    positions: _Bytes, first_values: _Bytes, values: _Bytes, base: int
) -> tuple[Block, Block, Block, Counts, Block]:
    """The chunks that hold some of `values`, and these values among them; all int64.

    Returns offset in the file and length of each chunk, where it begins and the last ends when they are put
    together, values in each, and the picks.
    """

def choose_row_chunks(
    positions: _Bytes, first_values: _Bytes, first_rows: _Bytes, ended_rows: _Bytes, rows: _Bytes, base: int
) -> tuple[Block, Block, Block, Counts, Counts, Block]:
    """The same for rows of a page with lists; instead of picks the rows that begin in each chunk, and three
    int64 per row: first and last of the chosen chunks, and how many rows begin in the first one before it."""

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
    """Levels of chosen rows, the picks of their values, and how many these are."""

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
    """Indices of 32 bits, and where each item occurs first; None where there are more items."""

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
    """Of every `step`-th value, `most` at the most: how many are not null, and how many of these differ."""

class MiniBlocks:
    """What is known of mini-block pages before their chunks are read."""

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
        items: tuple[_Bytes, _Bytes, int, int] | None,
    ) -> None:
        """`items`: offsets and bytes of what values are indices into, how many, and bits of an offset."""

    @property
    def can_take(self) -> bool:
        """Whether `take_rows` knows how to take rows of them."""

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
        """The values stand in lists."""

def decode_rows(
    pieces: Sequence[tuple[MiniBlocks, PieceReader, int, int]],
) -> list[tuple[int, int, Block | None, Block, Block | None, Block | None, Block | None] | None]:
    """Read and decode rows: of each of the pages, in a file that stays open, from one row to another.

    Gives the number of the first wanted value, how many are wanted, the validity of the values, the values or
    their offsets, their bytes, and offsets and validity of the lists around them; None where that failed.
    """

def decode_batches(pieces: Sequence[tuple[MiniBlocks, PieceReader, int, int]], cuts: _Bytes) -> ArrowRows:
    """The same for columns of the same rows, each of which is one piece: to be imported at once.

    `cuts` (int64, from 0 to the number of rows): where batches of them begin and end.
    """

class ColumnPages:
    """The pages of a column of one file."""

    def __init__(
        self, pages: list[MiniBlocks], starts: _Bytes, file: PieceReader, keeps_open: object
    ) -> None:
        """`starts` (int64): the first row of each page, and the number of rows.

        `keeps_open` holds the descriptor of the file.
        """

class ArrowRows:
    """Columns of rows, as one call reads and decodes them, for Arrow to import."""

    @property
    def is_there(self) -> list[bool]:
        """Of each column that was asked for whether that went well."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the values of all batches, counted like `lance_core.scan.read.value_sizes`."""

    @property
    def largest_bits(self) -> int:
        """Of the values of the largest batch of more than one row, where there is such."""

    @property
    def address(self) -> int:
        """Of an `ArrowArray` of Arrow's C data interface, a struct of the columns that are there.

        Whoever imports it, once, keeps this object until then.
        """

def take_rows(
    parts: Sequence[tuple[Sequence[ColumnPages], _Bytes, _Bytes | None]], num_columns: int, num_rows: int
) -> ArrowRows:
    """Read and decode single rows of columns without lists.

    Each part has the columns of a file, rows (int64, in any order), and their places among the `num_rows`
    rows of the result; without places they are all of these.
    """
