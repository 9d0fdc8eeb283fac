"""2.0 files of ours: what is refused, what is chosen, how pages are cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.encodings.v2_0.describe import describe_page
from lance_core.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_core.file.container_writer import ContainerWriter
from lance_core.file.data_file import ModernFile, open_data_file
from lance_core.file.metadata import read_file_metadata
from lance_core.scan.plan.statistics import read_page_statistics
from lance_core.statistics.file_checksums import verify_file
from lance_core.storage.local import LocalStorage
from lance_core.storage.memory import MemoryFile
from support.runs.each_case import each_case


def _write(data: pa.Table, path: Path, **arguments: object) -> lance_core.LanceDataset:
    return lance_core.write_dataset(data, path, data_storage_version="2.0", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "type_",
    [
        pa.map_(pa.utf8(), pa.int8()),
        pa.list_(pa.struct([pa.field("m", pa.map_(pa.utf8(), pa.int8()))])),
        pa.list_(pa.struct([("x", pa.int8())]), 2),
        pa.list_(pa.utf8(), 2),
        pa.binary(0),  # nobody reads them
        pa.list_(pa.dictionary(pa.int8(), pa.utf8()), 2),
    ],
    ids=str,
)
def test_types_that_2_0_cannot_hold_are_refused_by_name(type_: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"in a 2\.0 file"):
        _write(pa.table({"column": pa.nulls(2, type_)}), tmp_path / "new")

    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize(
    ("array", "column"),
    [
        (pa.array([{"x": 1}, None]), "column"),
        (pa.array([[{"x": 1}], [None]]), "item"),
        (pa.array([{"s": {"x": 1}}, {"s": None}]), "s"),
    ],
)
def test_null_structs_are_refused(array: pa.Array, column: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=f"null struct in a 2.0 file.*column {column}"):
        _write(pa.table({"column": array}), tmp_path / "new")

    assert not list(tmp_path.rglob("*.lance"))


def test_a_packed_struct_holds_neither_nulls_nor_strings(tmp_path: Path) -> None:
    packed = {"lance-encoding:packed": "true"}
    text = pa.field("column", pa.struct([("x", pa.utf8())]), metadata=packed)
    number = pa.field("column", pa.struct([("x", pa.int8())]), metadata=packed)

    with pytest.raises(UnsupportedFeatureError, match=r"packed struct of a 2\.0 file"):
        _write(pa.table([pa.nulls(1, text.type)], schema=pa.schema([text])), tmp_path / "text")
    with pytest.raises(InvalidInputError, match="column x"):
        _write(pa.table([pa.array([{"x": None}])], schema=pa.schema([number])), tmp_path / "null")


@each_case("num_distinct", [1, 99, 100, 255, 1000])
@each_case("num_rows", [99, 100, 5000])
def test_few_strings_become_a_dictionary(num_distinct: int, num_rows: int, tmp_path: Path) -> None:
    """The reference reads at most 255 items; it makes a dictionary of less than 100, from 100 rows on."""
    texts = pa.array([f"text {row % num_distinct}" if row % 7 else None for row in range(num_rows)])
    table = pa.table({"few": texts, "large": texts.cast(pa.large_utf8()), "bytes": texts.cast(pa.binary())})

    _write(table, tmp_path)

    kinds = [_description(tmp_path, column) for column in range(3)]
    is_dictionary = num_rows >= 100 and len(set(texts.drop_null().to_pylist())) < 100
    assert ["dictionary" in kind for kind in kinds] == [is_dictionary, False, False]
    assert lance.dataset(str(tmp_path)).to_table().equals(table)


def _description(path: Path, column: int) -> str:
    (file,) = (path / "data").iterdir()
    with LocalStorage(str(path / "data")).open_file(file.name) as opened:
        (page,) = read_file_metadata(opened).column(column).pages
    return str(describe_page(page.encoding))


def test_keys_of_a_dictionary_column_must_have_room_for_null(tmp_path: Path) -> None:
    full = pa.DictionaryArray.from_arrays(
        pa.array([*range(128), None], pa.int8()), pa.array([str(number) for number in range(128)])
    )

    with pytest.raises(InvalidInputError, match="no free index for null"):
        _write(pa.table({"column": full}), tmp_path / "new")


def _table_of_all_kinds() -> pa.Table:
    numbers = range(700)
    return pa.table(
        {
            "id": pa.array(numbers),
            "text": [f"text {number % 400}" if number % 7 else None for number in numbers],
            "few": [f"{number % 5}" for number in numbers],
            "list": [[number] * (number % 4) for number in numbers],
            "struct": [{"x": number, "l": [number]} for number in numbers],
            "dictionary": pa.array([f"{number % 3}" for number in numbers]).dictionary_encode(),
            "vector": pa.array([[1.0, number] for number in numbers], pa.list_(pa.float32(), 2)),
            "nothing": pa.nulls(700),
        }
    )


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """T26: single flipped bits, all over a 2.0 file, are all found."""
    _write(_table_of_all_kinds(), tmp_path, max_page_bytes=2000)
    (file,) = (tmp_path / "data").iterdir()
    data = file.read_bytes()
    assert verify_file(MemoryFile("whole", data))

    for bit in np.random.default_rng(3).integers(0, len(data) * 8, 300).tolist():
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            is_found = not verify_file(MemoryFile("flipped", bytes(changed)))
        except LanceError:
            is_found = True
        assert is_found, f"bit {bit} of {len(data) * 8}"


def test_pages_have_statistics_of_their_rows(tmp_path: Path) -> None:
    table = _table_of_all_kinds()
    batches = table.to_batches(max_chunksize=100)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    _write(reader, tmp_path, max_page_bytes=1)  # type: ignore[arg-type]
    (file,) = (tmp_path / "data").iterdir()

    with LocalStorage(str(tmp_path)).open_file(f"data/{file.name}") as opened:
        reader = open_data_file(opened)
        assert isinstance(reader, ModernFile)
        statistics = read_page_statistics(reader)
        assert statistics is not None
        ids = statistics.column(0, pa.int64())
        texts = statistics.column(1, pa.string())
        items = statistics.column(4, pa.int64())
        below = statistics.column(6, pa.int64())

    assert ids is not None
    assert texts is not None
    assert ids["first_row"].to_pylist() == list(range(0, 700, 100))
    assert ids["rows"].to_pylist() == [100] * 7
    assert ids["min"].to_pylist() == list(range(0, 700, 100))
    assert ids["max"].to_pylist() == list(range(99, 700, 100))
    assert texts["null_count"].to_pylist() == [batch["text"].null_count for batch in batches]
    assert below is not None
    assert below["max"].to_pylist() == ids["max"].to_pylist()
    assert items is None or items["min"].null_count == len(items)


def test_rows_that_fill_a_page_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows wait for a page as copies, so that they do not hold their batch."""
    written: list[int] = []

    def add(writer: ContainerWriter, buffers: tuple[pa.Buffer, ...], crc: int) -> object:
        written.extend(pa.py_buffer(data).address for data in buffers)
        return real_add(writer, buffers, crc)

    real_add = ContainerWriter.add_checked_buffers
    monkeypatch.setattr(ContainerWriter, "add_checked_buffers", add)
    table = pa.table({"a": pa.array(range(1900), pa.int64())})
    given = table["a"].chunk(0).buffers()[1]
    assert given is not None
    cuts = [0, 900, 1800, 1900]
    parts = [table.slice(first, last - first) for first, last in pairwise(cuts)]
    reader = pa.RecordBatchReader.from_batches(table.schema, [part.to_batches()[0] for part in parts])

    _write(reader, tmp_path, max_page_bytes=8000)  # type: ignore[arg-type]

    places = [address - given.address for address in written]
    assert places[:2] == [0, 900 * 8]
    assert not 0 <= places[2] < given.size
    assert lance.dataset(str(tmp_path)).to_table() == table


@each_case("step", [90, 100, 37])
def test_pages_hold_slices_and_copies(step: int, tmp_path: Path) -> None:
    """Batches begin in the middle of their buffers, also in the middle of a byte of validity."""
    table = _table_of_all_kinds()
    some = pa.array([number % 5 == 0 for number in range(700)])
    vectors = pa.FixedSizeListArray.from_arrays(table["vector"].chunk(0).values, 2, mask=some)
    nested = pa.FixedSizeListArray.from_arrays(table["vector"].chunk(0), 1)
    more = {
        "flag": pa.array([None if number % 3 == 0 else number % 2 == 0 for number in range(700)]),
        "number": pa.array([None if number % 11 == 0 else number for number in range(700)], pa.int16()),
        "vectors": vectors,
        "nested": nested,
        "bytes": table["text"].cast(pa.large_binary()),
    }
    for name, values in more.items():
        table = table.append_column(name, values)
    batches = table.combine_chunks().to_batches(max_chunksize=step)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)

    dataset = _write(reader, tmp_path, max_page_bytes=800)  # type: ignore[arg-type]

    assert dataset.to_table() == table
    assert lance.dataset(str(tmp_path)).to_table().to_pylist() == table.to_pylist()
    dataset.validate()


def test_a_filter_skips_pages(tmp_path: Path) -> None:
    table = _table_of_all_kinds()
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))
    dataset = _write(batches, tmp_path, max_page_bytes=1)  # type: ignore[arg-type]

    found = dataset.to_table(filter="id = 250")

    assert found.equals(table.slice(250, 1))
    assert lance.dataset(str(tmp_path)).to_table(filter="id = 250").equals(found)


@pytest.mark.parametrize("level", ["22", "99999999999", "-99999999999", "--5", "abc"])
def test_levels_beyond_those_of_zstd_are_brought_back(level: str, tmp_path: Path) -> None:
    metadata = {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": level}
    values = pa.array([f"some text {row}" for row in range(1_000)])
    data = pa.table([values], schema=pa.schema([pa.field("a", values.type, metadata=metadata)]))

    assert _write(data, tmp_path).to_table() == data
    assert lance.dataset(str(tmp_path)).to_table() == data
