"""Page statistics of 0.1 files hold for the rows of every page as they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import CorruptFileError
from lance_core.file.v0_1.reader import LegacyFile
from lance_core.proto import file_pb2
from lance_core.statistics.v0_1 import page_statistics
from lance_core.storage import LocalStorage
from support.runs.each_case import each_case
from support.tables.arrays import Spec, make_array

ROWS_PER_BATCH = 50
NUMBERS = (
    pa.bool_(),
    pa.int8(),
    pa.uint16(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(20, 3),
    pa.date32(),
    pa.date64(),
)
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def write(path: Path, table: pa.Table) -> Path:
    """One data file with batches of 50 rows."""
    lance.write_dataset(table, path, data_storage_version="0.1", max_rows_per_group=ROWS_PER_BATCH)
    (file,) = (path / "data").iterdir()
    return file


def read(file: Path, field_ids: list[int] | None = None) -> dict[int, pa.Table]:
    with LocalStorage(str(file.parent)).open_file(file.name) as opened:
        return page_statistics(LegacyFile(opened), field_ids)


def statistics_of(path: Path, array: pa.Array) -> tuple[list[dict[str, object]], list[pa.Array]]:
    """Statistics of each page of a column, and the values of each as they are read."""
    file = write(path, pa.table({"c": array}))
    column = lance_core.dataset(path).to_table()["c"].combine_chunks()
    table = read(file)[0]
    if pa.types.is_date(column.type):  # Python's dates end long before Arrow's
        number = pa.int32() if column.type == pa.date32() else pa.int64()
        column, types = column.cast(number), {"min": number, "max": number}
        table = table.cast(pa.schema([f.with_type(types.get(f.name, f.type)) for f in table.schema]))
    pages = [column.slice(start, ROWS_PER_BATCH) for start in range(0, len(column), ROWS_PER_BATCH)]
    rows = table.to_pylist()
    assert [(row["first_row"], row["rows"]) for row in rows] == [
        (number * ROWS_PER_BATCH, len(page)) for number, page in enumerate(pages)
    ]
    return rows, pages


@each_case("nulls", ["none", "sparse", "half", "all"])
@each_case("distribution", ["random", "small", "constant", "extremes", "few"])
@pytest.mark.parametrize("data_type", [*NUMBERS, *TEXTS], ids=str)
def test_statistics_hold_for_the_rows_as_read(
    data_type: pa.DataType, distribution: str, nulls: str, tmp_path: Path
) -> None:
    """T22: no row that is read lies outside the bounds of its page, and counts that are known are right."""
    field = pa.field("c", data_type)
    array = make_array(field, 190, Spec(distribution, nulls), np.random.default_rng(5))
    for row, page in zip(*statistics_of(tmp_path / "d", array), strict=True):
        assert row["null_count"] in (None, page.null_count)
        values = page.drop_null()
        if pa.types.is_floating(data_type):
            assert row["nan_count"] is None
            values = values.filter(pc.invert(pc.is_nan(values)))
        else:
            assert row["nan_count"] == 0
        for value in values.to_pylist():
            assert row["min"] is None or row["min"] <= value
            assert row["max"] is None or row["max"] >= value


@pytest.mark.parametrize("data_type", NUMBERS, ids=str)
def test_bounds_are_tight_without_nulls(data_type: pa.DataType, tmp_path: Path) -> None:
    array = make_array(pa.field("c", data_type), 190, Spec("small"), np.random.default_rng(5))
    for row, page in zip(*statistics_of(tmp_path / "d", array), strict=True):
        bounds = pc.min_max(page).as_py()
        assert (row["min"], row["max"], row["null_count"]) == (bounds["min"], bounds["max"], 0)


def test_nulls_that_become_values_are_in_no_bounds(tmp_path: Path) -> None:
    """The null comes back as 0, which the writer left out of the bounds."""
    (row,), (page,) = statistics_of(tmp_path / "d", pa.array([5, None, 7]))
    assert page.to_pylist() == [5, 0, 7]
    assert (row["null_count"], row["min"], row["max"]) == (0, None, None)


@pytest.mark.parametrize(
    ("values", "null_count", "bounds"),
    [
        (["b", "a"], 0, ("a", "b")),
        (["b", None], 1, ("b", "b")),
        (["b", ""], None, (None, "b")),
        ([None, ""], None, (None, None)),
        ([None, None], 2, (None, None)),
    ],
)
def test_empty_strings_make_nulls_uncertain(
    values: list[str | None], null_count: int | None, bounds: tuple[str | None, str | None], tmp_path: Path
) -> None:
    (row,), _ = statistics_of(tmp_path / "d", pa.array(values, pa.string()))
    assert (row["null_count"], (row["min"], row["max"])) == (null_count, bounds)


@pytest.mark.parametrize("last", ["中" * 3, "🦊" * 2, "ü" * 4])
def test_strings_cut_at_different_lengths(last: str, tmp_path: Path) -> None:
    """T22: the bound that the reference stores is below one of the values; its own filters lose that row."""
    values = ["A" * 62 + "é", "A" * 62 + last]
    (row,), _ = statistics_of(tmp_path / "d", pa.array(values))
    assert row["max"] >= max(values)
    assert row["min"] <= min(values)


def test_columns_are_named_by_field_id(tmp_path: Path) -> None:
    """Children of structs have statistics; lists, what is below them, and dictionaries have none."""
    table = pa.table(
        {
            "l": [[1], [2]],
            "s": [{"x": 1, "l": [1]}, {"x": 2, "l": [2]}],
            "d": pa.array(["a", "b"]).dictionary_encode(),
            "n": [1.0, 2.0],
        }
    )
    file = write(tmp_path / "d", table)
    schema = lance_core.dataset(tmp_path / "d").snapshot.manifest.schema
    wanted = {schema.resolve(name).id for name in ("s.x", "n")}
    found = read(file)
    assert found.keys() == wanted
    assert all(set(of["column"].to_pylist()) == {column} for column, of in found.items())
    assert read(file, [min(wanted)]).keys() == {min(wanted)}


def test_files_without_statistics(tmp_path: Path) -> None:
    """Releases before 0.8.4, and columns of kinds that have none."""
    assert read(write(tmp_path / "d", pa.table({"l": [[1]]}))) == {}
    fixtures = Path(__file__).parents[2] / "interop" / "fixtures"
    for release, has_some in (("0.3.19", False), ("0.7.5", False), ("0.10.0", True)):
        for file in (fixtures / release / "0.1.lance" / "data").iterdir():
            assert bool(read(file)) == has_some


@pytest.mark.parametrize(
    "change",
    [
        lambda statistics: setattr(statistics.schema[0], "name", "x"),
        lambda statistics: setattr(statistics.schema[1], "name", "x"),
        lambda statistics: setattr(statistics, "page_table_position", 1 << 40),
        lambda statistics: setattr(statistics, "page_table_position", 0),
    ],
)
def test_damaged_statistics_are_refused(
    change: Callable[[file_pb2.Metadata.StatisticsMetadata], None], tmp_path: Path
) -> None:
    """T22: unsound statistics would hide rows."""
    file = write(tmp_path / "d", pa.table({"a": range(1, 500)}))
    with LocalStorage(str(file.parent)).open_file(file.name) as opened:
        legacy = LegacyFile(opened)
        change(legacy.metadata.statistics)
        with pytest.raises(CorruptFileError, match=file.name):
            page_statistics(legacy)
