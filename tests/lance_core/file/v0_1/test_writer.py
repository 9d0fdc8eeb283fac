"""0.1 files of ours: what is refused, and the statistics in them."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.file.v0_1.reader import LegacyFile
from lance_core.statistics.v0_1 import page_statistics
from lance_core.storage.local import LocalStorage

ROWS = 2500


def _statistics(path: Path) -> dict[int, list[dict[str, object]]]:
    (file,) = (path / "data").iterdir()
    with LocalStorage(str(path / "data")).open_file(file.name) as opened:
        tables = page_statistics(LegacyFile(opened))
        return {field_id: table.to_pylist() for field_id, table in tables.items()}


def test_statistics_are_those_of_the_reference(tmp_path: Path) -> None:
    numbers = range(ROWS)
    table = pa.table(
        {
            "int": pa.array(numbers, pa.int32()),
            "unsigned": pa.array([(1 << 64) - 1 - number for number in numbers], pa.uint64()),
            "text": [f"v{number}" if number % 5 else None for number in numbers],
            "nulls": pa.nulls(ROWS, pa.string()),
            "float": [float("nan") if number < 1100 else number * 0.5 for number in numbers],
            "zeros": pa.array([0.0] * ROWS, pa.float32()),
            "struct": [{"x": number, "date": datetime.date(2020, 1, 1)} for number in numbers],
            "list": [[number] for number in numbers],
            "bool": [number > 1500 for number in numbers],
            "decimal": pa.array([decimal.Decimal(-number) for number in numbers], pa.decimal128(10, 2)),
            "half": pa.array([1.5] * ROWS, pa.float16()),
            "highest": [b"\xff" * 70] * ROWS,
            "long": ["é" * 50] * ROWS,
            "full": pa.array([b"x" * 64] * ROWS, pa.large_binary()),
        }
    )
    lance_core.write_dataset(table, tmp_path / "ours", data_storage_version="0.1")
    lance.write_dataset(table, str(tmp_path / "theirs"), data_storage_version="0.1")

    ours, theirs = _statistics(tmp_path / "ours"), _statistics(tmp_path / "theirs")

    assert len(ours) == 13
    assert [len(rows) for rows in ours.values()] == [3] * 13
    # NaN is not equal to itself, and not a bound.
    assert str(ours) == str(theirs)


def test_the_reference_prunes_by_our_statistics(tmp_path: Path) -> None:
    table = pa.table({"a": range(ROWS), "b": [f"{number:05}" for number in range(ROWS)]})
    lance_core.write_dataset(table, tmp_path, data_storage_version="0.1", max_rows_per_group=100)

    reference = lance.dataset(str(tmp_path))

    for text in ("a = 1234", "a > 2490", "b = '00777'", "b < '00003'", "a < 0"):
        assert reference.to_table(filter=text).equals(_filtered(table, text, tmp_path / text[:1]))


def _filtered(table: pa.Table, text: str, path: Path) -> pa.Table:
    return lance.write_dataset(table, str(path), mode="overwrite").to_table(filter=text)


def _refused(array: pa.Array, tmp_path: Path, nullable: bool = True) -> None:
    schema = pa.schema([pa.field("before", pa.int8()), pa.field("column", array.type, nullable)])
    table = pa.Table.from_arrays([pa.array([1] * len(array), pa.int8()), array], schema=schema)
    lance_core.write_dataset(table, tmp_path / "new", data_storage_version="0.1")


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None]),
        pa.array([True, None]),
        pa.array([[1], None]),
        pa.array([[1, None]]),
        pa.array([{"x": 1}, None]),
        pa.array([{"x": None}], pa.struct([("x", pa.int8())])),
        pa.array(["a", ""]),
        pa.array([[""]]),
        pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        pa.array([[1, None]], pa.list_(pa.int8(), 2)),
    ],
    ids=str,
)
def test_values_that_would_not_come_back_are_refused(array: pa.Array, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"in a 0\.1 file, which cannot store it"):
        _refused(array, tmp_path)

    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1.5]).dictionary_encode(),
        pa.nulls(1, pa.map_(pa.int8(), pa.int8())),
        pa.nulls(1, pa.list_(pa.struct([("x", pa.int8())]), 2)),
        pa.nulls(1, pa.list_(pa.string(), 2)),
        pa.nulls(1, pa.struct([])),
        pa.nulls(1, pa.binary(0)),
        pa.nulls(1, pa.list_(pa.field("element", pa.int8()))),
        pa.array([[1]], pa.list_(pa.field("item", pa.int8(), nullable=False))),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_0_1_cannot_hold_are_refused(array: pa.Array, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1 file"):
        _refused(array, tmp_path)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_rows_without_columns_are_refused(version: str, tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2]}).select([])
    with pytest.raises(InvalidInputError, match="without columns"):
        lance_core.write_dataset(rows, tmp_path / "x", data_storage_version=version)
    assert not (tmp_path / "x" / "_versions").exists()


def test_empty_text_is_kept_where_nothing_is_null(tmp_path: Path) -> None:
    _refused(pa.array(["", "a"]), tmp_path, nullable=False)

    assert lance.dataset(str(tmp_path / "new")).to_table()["column"].to_pylist() == ["", "a"]


def test_fragments_have_all_columns(tmp_path: Path) -> None:
    """The reference refuses an append of some columns, too."""
    table = pa.table({"a": ["x"], "b": ["y"]})
    lance_core.write_dataset(table, tmp_path, data_storage_version="0.1")

    with pytest.raises(InvalidInputError, match="column is missing"):
        lance_core.write_dataset(table.select(["a"]), tmp_path, mode="append")
    lance_core.write_dataset(table.select(["b", "a"]), tmp_path, mode="append")

    assert lance.dataset(str(tmp_path)).to_table().equals(pa.concat_tables([table, table]))


def _coded(values: list[object]) -> pa.Array:
    return pa.array(values).dictionary_encode()


def _check_values(path: Path, expected: list[object]) -> None:
    for found in (lance.dataset(str(path)), lance_core.dataset(path)):
        assert found.to_table()["d"].to_pylist() == expected
        assert found.validate() is None


def test_dictionaries_that_differ_by_batch_become_one(tmp_path: Path) -> None:
    """The reference keeps the first and reads the keys of the others by it: other values. Nulls it loses."""
    first, second = ["x", "y", None, "x"], ["p", "q", "x", None]
    table = pa.table({"d": pa.chunked_array([_coded(first), _coded(second)]), "i": range(8)})

    lance_core.write_dataset(
        table, tmp_path, data_storage_version="0.1", max_rows_per_file=3, max_rows_per_group=2
    )

    _check_values(tmp_path, first + second)


@pytest.mark.parametrize("writer", [lance, lance_core])
def test_tables_with_dictionaries_are_continued(writer: object, tmp_path: Path) -> None:
    """Values of dictionaries are in every manifest, at positions in that file. Both libraries continue
    such tables.
    """
    path, expected = tmp_path / "d", ["x", "y", "z", "x", "y", "z"]
    table = pa.table({"d": _coded(expected), "i": range(6)})
    writer.write_dataset(table, str(path), data_storage_version="0.1", max_rows_per_file=4)  # type: ignore[attr-defined]
    theirs = pa.table({"d": pa.DictionaryArray.from_arrays([2, 0], ["x", "y", "z"]), "i": [10, 11]})
    theirs = theirs.cast(table.schema)

    lance_core.dataset(path).delete("i = 1")
    lance_core.write_dataset(pa.table({"d": _coded(["z", "y"]), "i": [8, 9]}), path, mode="append")
    lance.write_dataset(theirs, str(path), mode="append")
    lance_core.dataset(path).update({"i": "100"}, where="i = 0")
    lance.dataset(str(path)).delete("i = 5")
    expected = ["z", "x", "y", "z", "y", "z", "x", "x"]
    _check_values(path, expected)
    lance_core.dataset(path).optimize.compact_files()
    _check_values(path, expected)
    clone = lance_core.dataset(path).shallow_clone(tmp_path / "clone", lance_core.dataset(path).version)
    _check_values(Path(clone.uri), expected)

    with pytest.raises(InvalidInputError, match=r"not in the dictionary.*found new"):
        lance_core.write_dataset(pa.table({"d": _coded(["new"]), "i": [1]}), path, mode="append")
    lance_core.write_dataset({"d": _coded([7, 5, 7])}, path, mode="overwrite")
    _check_values(path, [7, 5, 7])
    lance_core.dataset(path, version=1).restore()
    _check_values(path, ["x", "y", "z", "x", "y", "z"])


@pytest.mark.parametrize("values", [["a", ""], [1, None]])
def test_items_that_would_not_come_back_are_refused(values: list[object], tmp_path: Path) -> None:
    _refused(_coded(["a"]), tmp_path)
    with pytest.raises(InvalidInputError, match=r"in a 0\.1 file, which cannot store it"):
        _refused(_coded(values), tmp_path / "other")


def test_keys_are_not_outgrown(tmp_path: Path) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["a", "b"])
    many = [pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), [str(n)]) for n in range(130)]
    _refused(array, tmp_path)
    with pytest.raises(InvalidInputError, match="more dictionary values than keys"):
        lance_core.write_dataset(
            pa.RecordBatchReader.from_batches(
                pa.schema([("d", array.type)]), [pa.record_batch({"d": each}) for each in many]
            ),
            tmp_path / "other",
            data_storage_version="0.1",
            max_rows_per_group=1,
        )
