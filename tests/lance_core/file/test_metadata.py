"""The container of data files: what the reference wrote, and what nobody should have written."""

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import any_pb2
from lance.file import LanceFileReader, LanceFileWriter

from lance_core.errors import CorruptFileError, LanceError, UnsupportedFeatureError
from lance_core.file.footer import FOOTER_BYTES, FileVersion
from lance_core.file.metadata import MOST_METADATA_BYTES, TAIL_BYTES, FileMetadata, read_file_metadata
from lance_core.proto import file2_pb2
from lance_core.storage import LocalStorage, ReadableFile
from support.runs.each_case import each_case

FOOTER = struct.Struct("<QQQIIHH4s")
PAGE_LAYOUT = "/lance.encodings21.PageLayout"


def write_file(path: Path, table: pa.Table, version: str = "2.1") -> Path:
    """Write every batch of 250 rows as a page of its own."""
    with LanceFileWriter(str(path), table.schema, version=version, data_cache_bytes=1) as writer:
        for batch in table.to_batches(max_chunksize=250):
            writer.write_batch(batch)
    return path


def read(path: Path) -> FileMetadata:
    with LocalStorage(str(path.parent)).open_file(path.name) as file:
        return read_file_metadata(file)


class MemoryFile(ReadableFile):
    """Bytes in memory that count how often they are read."""

    max_gap = 0
    max_merged_read = 1 << 20

    def __init__(self, data: bytes) -> None:
        self.name = "data/f.lance"
        self.size = len(data)
        self.identity = ""
        self.reads: list[tuple[int, int]] = []
        self._data = data

    def read(self, offset: int, length: int) -> pa.Buffer:
        assert 0 <= offset <= offset + length <= self.size
        self.reads.append((offset, length))
        return pa.py_buffer(self._data[offset : offset + length])

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def small_table() -> pa.Table:
    return pa.table(
        {
            "i": pa.array(range(1000), pa.int32()),
            "s": [f"text {row}" for row in range(1000)],
            "l": [[{"x": row}, {"x": None}] for row in range(1000)],
        }
    )


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_metadata_is_what_the_reference_says(tmp_path: Path, small_table: pa.Table, version: str) -> None:
    path = write_file(tmp_path / "f.lance", small_table, version)
    theirs = LanceFileReader(str(path)).metadata()

    ours = read(path)

    assert ours.version.name == version
    assert ours.size == path.stat().st_size
    assert ours.num_rows == theirs.num_rows == 1000
    assert ours.num_columns == len(theirs.columns)
    assert ours.schema.to_arrow().equals(theirs.schema, check_metadata=True)
    assert ours.global_buffers == tuple((buffer.position, buffer.size) for buffer in theirs.global_buffers)
    for index, column in enumerate(theirs.columns):
        assert ours.column(index).index == index
        assert ours.column(index).encoding_type == "lance.encodings.ColumnEncoding"
        assert [page.buffers for page in ours.column(index).pages] == [
            tuple((buffer.position, buffer.size) for buffer in page.buffers) for page in column.pages
        ]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_pages_say_their_rows_and_layout(tmp_path: Path, small_table: pa.Table, version: str) -> None:
    ours = read(write_file(tmp_path / "f.lance", small_table, version))

    for index in range(ours.num_columns):
        pages = ours.column(index).pages
        assert [(page.num_rows, page.priority) for page in pages] == [
            (250, 0),
            (250, 250),
            (250, 500),
            (250, 750),
        ]
        assert {page.encoding_type for page in pages} == {"lance.encodings21.PageLayout"}
        assert all(page.encoding for page in pages)


def test_a_small_file_is_read_once_and_a_wide_one_twice(tmp_path: Path, small_table: pa.Table) -> None:
    wide = pa.table({f"column {number}": [number] for number in range(2000)})
    small_file = MemoryFile(write_file(tmp_path / "small", small_table).read_bytes())
    wide_file = MemoryFile(write_file(tmp_path / "wide", wide).read_bytes())

    read_file_metadata(small_file)
    assert len(small_file.reads) == 1
    assert small_file.reads[0][1] <= TAIL_BYTES

    metadata = read_file_metadata(wide_file)
    assert [metadata.column(index).pages[0].num_rows for index in range(2000)] == [1] * 2000
    assert len(wide_file.reads) <= 3, "tail, column metadata, and a descriptor too large to lie with it"


def test_two_columns_of_a_thousand_are_read_alone(tmp_path: Path) -> None:
    """Many pages of many columns: beside the end of the file and its schema, the metadata of the two."""
    values = pa.array([1, 2, 3, 4, 5] * 850, pa.int8())
    path = write_file(tmp_path / "t.lance", pa.table({f"c{i}": values for i in range(1000)}))
    file = MemoryFile(path.read_bytes())
    metadata = read_file_metadata(file)
    sizes = metadata._ranges[:, 1]
    assert sizes.sum() > MOST_METADATA_BYTES
    opening = sum(length for _, length in file.reads)
    descriptor = metadata.global_buffers[0][1]
    assert opening <= TAIL_BYTES + descriptor
    file.reads.clear()
    assert [sum(page.num_rows for page in metadata.column(index).pages) for index in (17, 912)] == [4250] * 2
    assert sum(length for _, length in file.reads) <= sizes[17] + sizes[912]


def test_metadata_keeps_nothing_of_the_file_but_itself(tmp_path: Path) -> None:
    """T33: servers keep the metadata of thousands of files."""
    path = write_file(tmp_path / "f.lance", pa.table({"a": range(100_000)}))
    before = pa.total_allocated_bytes()
    kept = [read(path) for _ in range(20)]
    assert all(metadata.column(0).pages for metadata in kept)
    assert pa.total_allocated_bytes() - before < 20 * 1024


def test_a_broken_column_harms_only_those_who_ask_for_it(tmp_path: Path, small_table: pa.Table) -> None:
    path = write_file(tmp_path / "f.lance", small_table)
    data = bytearray(path.read_bytes())
    start, table, *_ = FOOTER.unpack(data[-FOOTER_BYTES:])
    position, size = struct.unpack_from("<QQ", data, table + 16)
    data[position : position + size] = b"\xff" * size

    metadata = read_file_metadata(MemoryFile(bytes(data)))

    assert start < position
    assert len(metadata.column(0).pages) == 4
    assert metadata.column(0) is metadata.column(0)
    with pytest.raises(CorruptFileError, match=r"file data/f\.lance, column 1"):
        metadata.column(1)
    for missing in (-1, 3, 1 << 40):
        with pytest.raises(CorruptFileError, match="no such column"):
            metadata.column(missing)


def test_versions_are_known_by_footer_and_name() -> None:
    spellings = {
        (0, 0): "0.1",
        (0, 1): "0.1",
        (0, 2): "0.1",
        (0, 3): "2.0",
        (2, 0): "2.0",
        (2, 1): "2.1",
        (2, 2): "2.2",
    }
    for major in range(4):
        for minor in range(5):
            if name := spellings.get((major, minor)):
                assert FileVersion.from_numbers(major, minor) == FileVersion.from_name(name)
                assert FileVersion.from_numbers(major, minor).name == name
            else:
                with pytest.raises(UnsupportedFeatureError, match=rf"found {major}\.{minor}"):
                    FileVersion.from_numbers(major, minor)
    assert FileVersion.V0_1 < FileVersion.V2_0 < FileVersion.V2_1 < FileVersion.V2_2
    for name in ("2.3", "", "legacy", "2"):
        with pytest.raises(UnsupportedFeatureError, match="data file version"):
            FileVersion.from_name(name)


def test_a_legacy_file_is_refused_by_version(tmp_path: Path) -> None:
    """T43"""
    data = bytearray(write_file(tmp_path / "f.lance", pa.table({"a": [1]})).read_bytes())
    for spelling, version in (((0, 2), "0.1"), ((2, 3), "2.3"), ((9, 9), "9.9")):
        data[-8:-4] = struct.pack("<HH", *spelling)
        with pytest.raises(UnsupportedFeatureError, match=f"found {version}"):
            read_file_metadata(MemoryFile(bytes(data)))


def container(
    columns: Sequence[file2_pb2.ColumnMetadata],
    *,
    version: tuple[int, int] = (2, 1),
    data: bytes = bytes(128),
) -> MemoryFile:
    """Return a file assembled by hand: data, empty descriptor, column metadata, tables, footer."""
    messages = [column.SerializeToString() for column in columns]
    entries = []
    position = len(data)
    for message in messages:
        entries.append(struct.pack("<QQ", position, len(message)))
        position += len(message)
    body = data + b"".join(messages) + b"".join(entries)
    tables = len(data) + sum(map(len, messages))
    footer = FOOTER.pack(len(data), tables, len(body), 1, len(columns), *version, b"LANC")
    return MemoryFile(body + struct.pack("<QQ", len(data), 0) + footer)


def encoding(type_url: str = PAGE_LAYOUT) -> file2_pb2.Encoding:
    described = any_pb2.Any(type_url=type_url, value=b"layout").SerializeToString()
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=described))


def column(page: file2_pb2.ColumnMetadata.Page) -> file2_pb2.ColumnMetadata:
    return file2_pb2.ColumnMetadata(encoding=encoding("/lance.encodings.ColumnEncoding"), pages=[page])


def page(**changes: object) -> file2_pb2.ColumnMetadata.Page:
    fields = {"buffer_offsets": [64], "buffer_sizes": [10], "length": 3, "encoding": encoding()}
    return file2_pb2.ColumnMetadata.Page(**(fields | changes))


def test_a_container_made_by_hand_is_read() -> None:
    metadata = read_file_metadata(container([column(page())]))

    (only,) = metadata.column(0).pages
    assert (only.buffers, only.num_rows) == (((64, 10),), 3)
    assert (only.encoding_type, only.encoding) == ("lance.encodings21.PageLayout", b"layout")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffer_offsets": [1]}, "not aligned"),
        ({"buffer_offsets": [1 << 63]}, "outside the file"),
        ({"buffer_offsets": [(1 << 64) - 64], "buffer_sizes": [64]}, "outside the file"),
        ({"buffer_sizes": [(1 << 64) - 1]}, "outside the file"),
        ({"buffer_sizes": []}, "without a size"),
        ({"encoding": None}, "not stored in the metadata"),
        ({"encoding": file2_pb2.Encoding(indirect=file2_pb2.DeferredEncoding())}, "found indirect"),
        ({"encoding": encoding("lance.encodings21.PageLayout")}, "no type"),
        (
            {"encoding": file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=b"\xff"))},
            "encoding does not decode",
        ),
    ],
)
def test_a_page_that_lies_is_corrupt(changes: dict[str, object], message: str) -> None:
    """T22"""
    metadata = read_file_metadata(container([column(page()), column(page(**changes))]))

    assert metadata.column(0).pages
    with pytest.raises(CorruptFileError, match=message) as error:
        metadata.column(1)
    assert (error.value.file, error.value.column, error.value.page) == ("data/f.lance", 1, 0)


def test_buffers_of_2_0_files_may_lie_anywhere() -> None:
    metadata = read_file_metadata(container([column(page(buffer_offsets=[1]))], version=(0, 3)))
    assert metadata.version == FileVersion.V2_0
    assert metadata.column(0).pages[0].buffers == ((1, 10),)


def test_type_names_are_compared_by_their_last_part() -> None:
    metadata = read_file_metadata(container([column(page(encoding=encoding("type.googleapis.com/a.B")))]))
    assert metadata.column(0).pages[0].encoding_type == "a.B"


HUGE = (1 << 64) - 1


@each_case("field", range(8))
@each_case("value", [0, 1, 39, 128, 500, 1 << 31, (1 << 32) - 1, 1 << 63, HUGE])
def test_no_number_in_the_footer_is_believed(field: int, value: int) -> None:
    """T22: a lie is refused, or is small enough to leave a readable file."""
    original = container([column(page())])
    data = bytes(original.read(0, original.size))
    numbers = list(FOOTER.unpack(data[-FOOTER_BYTES:]))
    largest = [HUGE, HUGE, HUGE, 2**32 - 1, 2**32 - 1, 65535, 65535]
    numbers[field] = b"XXXX" if field == 7 else value & largest[field]
    refused = False
    try:
        walk(data[:-FOOTER_BYTES] + FOOTER.pack(*numbers))
    except LanceError:
        refused = True
    assert refused or (field != 7 and value & largest[field] <= 500)


@pytest.mark.parametrize(
    ("entries_from_end", "entry"),
    [
        *((2, entry) for entry in [(0, 1), (127, 10), (HUGE, 1), (HUGE, HUGE), (128, HUGE), (1 << 40, 0)]),
        *((1, entry) for entry in [(0, 1 << 62), (HUGE, 1), (HUGE, HUGE), (1, HUGE), (1 << 40, 0)]),
    ],
)
def test_no_entry_of_a_table_is_believed(entries_from_end: int, entry: tuple[int, int]) -> None:
    """T22: the last entry is the descriptor's, the one before it the column's."""
    original = container([column(page())])
    data = bytearray(original.read(0, original.size))
    struct.pack_into("<QQ", data, len(data) - FOOTER_BYTES - 16 * entries_from_end, *entry)
    with pytest.raises(CorruptFileError, match="outside its section"):
        walk(bytes(data))


def walk(data: bytes) -> None:
    """Open and decode everything."""
    metadata = read_file_metadata(MemoryFile(data))
    _ = metadata.schema.to_arrow(), metadata.num_rows
    for index in range(metadata.num_columns):
        metadata.column(index)


def test_every_truncation_is_a_lance_error(tmp_path: Path, small_table: pa.Table) -> None:
    """T22, T25"""
    data = write_file(tmp_path / "f.lance", small_table.slice(0, 100)).read_bytes()
    for length in range(len(data)):
        with pytest.raises(LanceError):
            walk(data[:length])


def test_flipped_bits_and_spliced_bytes_raise_only_lance_errors(
    tmp_path: Path, small_table: pa.Table
) -> None:
    """T22: 6,000 mutants of everything behind the pages."""
    data = write_file(tmp_path / "f.lance", small_table.slice(0, 100)).read_bytes()
    start = read_file_metadata(MemoryFile(data)).global_buffers[0][0]
    generator = random.Random(7)
    refused = 0
    for _ in range(6000):
        mutant = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 4])):
            position = generator.randrange(start, len(mutant))
            mutant[position] = generator.choice(
                [0, 1, 127, 128, 255, mutant[position] ^ 1 << generator.randrange(8)]
            )
        if generator.random() < 0.1:
            cut = generator.randrange(start, len(mutant))
            del mutant[cut : cut + generator.randrange(1, 20)]
        try:
            walk(bytes(mutant))
        except LanceError:
            refused += 1
    assert refused > 1000


def test_a_descriptor_that_does_not_decode_is_corrupt() -> None:
    """T22"""
    original = container([], data=b"\xff" * 128)
    data = bytearray(original.read(0, original.size))
    struct.pack_into("<QQ", data, len(data) - FOOTER_BYTES - 16, 0, 128)
    with pytest.raises(CorruptFileError, match="descriptor does not decode"):
        read_file_metadata(MemoryFile(bytes(data)))
