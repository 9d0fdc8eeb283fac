"""Rows in the order of columns, compared with the reference."""

from __future__ import annotations

import math
import struct
from contextlib import AbstractContextManager
from decimal import Decimal
from itertools import product
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering as TheirOrdering

import lance_core
from lance_core import ColumnOrdering, LanceDataset
from lance_core.errors import InvalidInputError
from lance_core.process.readers import Reader
from lance_core.scan import ordered
from support.oracles.comparison import assert_tables_equal

NUM_ROWS = 3000
WAYS = list(product([True, False], [True, False]))
NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]
FLOATS = [0.0, -0.0, math.nan, NEGATIVE_NAN, math.inf, -math.inf, 1.5, -2.5, None]


def rows() -> pa.Table:
    """Rows with ties and nulls in every column but `id`."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 40, NUM_ROWS)
    few = [None if n == 0 else int(n) for n in numbers]
    floats = [FLOATS[n % len(FLOATS)] for n in numbers]
    return pa.table(
        {
            "id": rng.permutation(NUM_ROWS),
            "int": pa.array(few, pa.int32()),
            "big": pa.array([None if n is None else 2**64 - n for n in few], pa.uint64()),
            "bool": pa.array([None if n % 3 == 0 else n % 3 == 1 for n in numbers]),
            "double": pa.array(floats, pa.float64(), from_pandas=False),
            "float": pa.array(floats, pa.float32(), from_pandas=False),
            "half": pa.array([None if f is None else np.float16(f) for f in floats], pa.float16()),
            "text": pa.array([None if n is None else chr(ord("A") + n) * (n % 3) for n in few]),
            "bytes": pa.array([None if n is None else bytes([255 - n]) * (n % 3) for n in few]),
            "fixed": pa.array([None if n is None else bytes([n, 1]) for n in few], pa.binary(2)),
            "decimal": pa.array([None if n is None else Decimal(n - 20) for n in few], pa.decimal128(9, 2)),
            "time": pa.array(few, pa.timestamp("us", "UTC")),
            "duration": pa.array(few, pa.duration("ms")),
            "day": pa.array(few, pa.date32()),
            "kind": pa.array([f"kind {n % 7}" for n in numbers]).dictionary_encode(),
            "point": pa.array([None if n is None else {"x": n % 5 or None, "Y": str(n % 4)} for n in few]),
            "user-id": numbers,
            "camelCase": -numbers,
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four fragments with deleted rows."""
    path = str(tmp_path_factory.mktemp("ordered") / "rows.lance")
    lance.write_dataset(rows(), path, max_rows_per_file=800).delete("id % 7 = 2")
    return path


@pytest.fixture
def ours(path: str) -> LanceDataset:
    return lance_core.dataset(path)


@pytest.fixture(params=["in memory", "taken"])
def share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a limit take single rows, or not; and choose the best rows after every few rows."""
    monkeypatch.setattr(ordered, "_TAKEN_SHARE", 2 if request.param == "taken" else 1 << 30)
    monkeypatch.setattr(ordered, "_SORTED_ROWS", 100)
    monkeypatch.setattr(ordered, "_END_ROWS", 300)
    monkeypatch.setattr(ordered, "_PART_ROWS", 500)


def both_orders(name: str, ascending: bool, nulls_first: bool) -> tuple[list[object], list[object]]:
    """Return an order for each library that has no ties."""
    return (
        [TheirOrdering(name, ascending, nulls_first), TheirOrdering("id")],
        [ColumnOrdering(name, ascending, nulls_first), ColumnOrdering("id")],
    )


COLUMNS = [name for name in rows().column_names if name not in ("id", "half")] + ["point.x", "point.Y"]


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_have_the_order_of_the_reference(path: str, ours: LanceDataset, name: str) -> None:
    """NaN by its sign, -0.0 before 0.0, nulls at the named end, fields of structs one by one."""
    for ascending, nulls_first in WAYS:
        theirs, own = both_orders(name, ascending, nulls_first)
        expected = lance.dataset(path).to_table(columns=["id", "double"], order_by=theirs, with_row_id=True)
        found = ours.to_table(columns=["id", "double"], order_by=own, with_row_id=True)
        assert_tables_equal(expected, found)


def test_half_floats_have_the_order_of_doubles(ours: LanceDataset) -> None:
    for ascending, nulls_first in WAYS:
        orders = [both_orders(name, ascending, nulls_first)[1] for name in ("half", "double")]
        half, double = (ours.to_table(columns=["id"], order_by=order) for order in orders)
        assert half.equals(double)


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, {}) for name in ("double", "half", "bool", "text", "kind", "point")),
        ("int", {"filter": "id % 3 = 0"}),
        ("fixed", {"with_row_id": True}),
    ],
)
def test_limit_and_offset_cut_the_sorted_rows(ours: LanceDataset, name: str, arguments: dict) -> None:
    """Best rows that are taken at the end are those of a sort of everything."""
    for ascending, nulls_first in WAYS:
        order = both_orders(name, ascending, nulls_first)[1]
        arguments = {"columns": ["id", name], "order_by": order, **arguments}
        everything = ours.to_table(**arguments)
        for limit, offset in ((1, None), (150, 5), (700, 650), (5, 10_000), (0, None), (None, 900)):
            found = ours.scanner(limit=limit, offset=offset, **arguments)
            expected = everything.slice(offset or 0, limit)
            assert_tables_equal(expected, found.to_table())
            assert found.count_rows() == expected.num_rows


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("limit", [None, 400])
def test_rows_that_are_equal_keep_the_order_of_the_scan(
    ours: LanceDataset, ascending: bool, limit: int | None
) -> None:
    unsorted = ours.to_table(columns=["int"], with_row_address=True)
    found = ours.to_table(
        columns=["int"], with_row_address=True, limit=limit, order_by=[ColumnOrdering("int", ascending)]
    )
    order = [("int", "ascending" if ascending else "descending"), ("_rowaddr", "ascending")]
    assert found.equals(unsorted.sort_by(order).slice(0, limit).cast(found.schema))


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("limit", [None, 20])
def test_the_result_need_not_have_the_columns_that_decide(ours: LanceDataset, limit: int | None) -> None:
    everything = ours.to_table().sort_by([("user-id", "ascending"), ("id", "descending")]).slice(0, limit)
    order = ["user-id", ColumnOrdering("id", ascending=False)]
    found = ours.to_table(columns=["camelCase", "point.Y"], order_by=order, limit=limit)
    assert found["camelCase"].equals(everything["camelCase"])
    assert found.column_names == ["camelCase", "point.Y"]
    computed = ours.to_table(columns={"user-id": "-`user-id`", "id": "id"}, order_by=order, limit=limit)
    assert computed["id"].equals(everything["id"])
    assert computed["user-id"].to_pylist() == [-value for value in everything["user-id"].to_pylist()]


def test_a_column_that_is_named_again_decides_nothing(path: str, ours: LanceDataset) -> None:
    for dataset, ordering in ((lance.dataset(path), TheirOrdering), (ours, ColumnOrdering)):
        found = dataset.to_table(columns=["id"], order_by=["id", ordering("id", ascending=False)])
        assert found["id"].to_pylist() == sorted(found["id"].to_pylist())


def test_rows_can_be_sorted_by_row_columns(ours: LanceDataset) -> None:
    addresses = ours.to_table(columns=["_rowaddr"])["_rowaddr"].to_pylist()
    order = [ColumnOrdering("_rowaddr", ascending=False)]
    for limit in (None, 3):
        found = ours.to_table(columns=["_rowaddr"], order_by=order, limit=limit)
        assert found["_rowaddr"].to_pylist() == addresses[::-1][:limit]


def test_sorted_rows_come_in_batches_of_the_wanted_size(ours: LanceDataset) -> None:
    for arguments in ({}, {"limit": 20, "offset": 1}):
        batches = list(ours.to_batches(columns=["id"], order_by=["id"], batch_size=8, **arguments))
        assert {batch.num_rows for batch in batches[:-1]} == {8}
        values = [value for batch in batches for value in batch["id"].to_pylist()]
        assert values == sorted(values)


def test_a_fragment_is_sorted_alone(ours: LanceDataset) -> None:
    fragment = ours.get_fragments()[1]
    unsorted = fragment.to_table(columns=["id"])
    expected = unsorted.sort_by("id").slice(0, 30)
    assert fragment.to_table(columns=["id"], order_by=["id"], limit=30).equals(expected)


def test_rows_without_columns_are_only_counted(ours: LanceDataset) -> None:
    scan = ours.scanner(columns=[], order_by=["id"], limit=7)
    assert (scan.to_table().num_rows, scan.count_rows()) == (7, 7)


@pytest.mark.parametrize(
    ("order_by", "error", "words"),
    [
        (["nope"], ValueError, "nope"),
        (["camelcase"], ValueError, "camelcase"),
        (["list"], lance_core.InvalidInputError, "list"),
        (["json"], lance_core.InvalidInputError, "json"),
        (["blob"], lance_core.InvalidInputError, "blob"),
        ([1], TypeError, "order"),
    ],
    ids=repr,
)
def test_columns_without_an_order_are_refused_by_name(
    tmp_path: Path, order_by: list, error: type[Exception], words: str
) -> None:
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    vectors = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    table = pa.table({"camelCase": [1], "list": [[1]], "json": pa.array(["{}"], pa.json_()), "v": vectors})
    table = table.append_column(blob, pa.array([b"x"], pa.large_binary()))
    dataset = lance_core.write_dataset(table, tmp_path / "d", data_storage_version="2.1")
    for search in (None, {"column": "v", "q": [1.0, 2.0]}):
        with pytest.raises(error, match=words):
            dataset.scanner(order_by=order_by, nearest=search)
    if error is not lance_core.InvalidInputError:
        with pytest.raises(error, match=words):
            lance.dataset(str(tmp_path / "d")).to_table(order_by=order_by)


def test_an_empty_table_has_an_order(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "d")
    assert dataset.to_table(order_by=["x"]).equals(dataset.to_table())
    assert dataset.to_table(order_by=["x"], limit=1).equals(dataset.to_table())


def pages_of(scan: lance_core.LanceScanner) -> dict[str, tuple[str, int, int | None]]:
    """Return use, pages and pages read of each column of an analyzed scan."""
    pages = [column for fragment in scan.explain(analyze=True).fragments for column in fragment.columns]
    return {
        name: (
            next(column.use for column in pages if column.name == name),
            sum(column.total for column in pages if column.name == name),
            sum(column.read or 0 for column in pages if column.name == name),
        )
        for name in {column.name for column in pages}
    }


def test_a_limit_reads_few_pages_of_columns_that_do_not_decide(tmp_path: Path) -> None:
    """T33: the best rows are found by the columns that decide, and only these rows are taken."""
    rng = np.random.default_rng(5)
    table = pa.table({"key": rng.permutation(4000), "wide": [bytes(500)] * 4000})
    dataset = lance_core.write_dataset(table, tmp_path / "d", max_page_bytes=20_000)
    scan = dataset.scanner(columns=["wide"], order_by=["key"], limit=3)
    pages = pages_of(scan)
    use, total, read = pages["wide"]
    assert (use, pages["key"][0]) == ("output", "order")
    assert total > 50
    assert read <= 3
    assert pages["key"][1] == pages["key"][2]
    assert "Order: key ascending, nulls last" in scan.explain_plan()
    everything = pages_of(dataset.scanner(order_by=["key"]))
    assert everything["wide"] == ("output", total, total)
    assert everything["key"][0] == "order, output"


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")])
def test_a_limit_reads_only_the_pages_that_reach_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, ascending: bool
) -> None:
    """T33: the first or the last rows of a table that is sorted by time are found in one page."""
    monkeypatch.setattr(ordered, "_END_ROWS", 2000)
    numbers = pa.array(range(10_000, 50_000))
    table = pa.table({"key": numbers.cast(kind), "number": numbers})
    dataset = lance_core.write_dataset(table, tmp_path / "d", max_page_bytes=20_000)
    order = [ColumnOrdering("key", ascending)]
    scan = dataset.scanner(columns=["number"], order_by=order, limit=5)
    _, total, read = pages_of(scan)["key"]
    assert total > 10
    assert read <= 4
    expected = [10_000 + n if ascending else 49_999 - n for n in range(5)]
    assert scan.to_table()["number"].to_pylist() == expected


def test_an_analyzed_count_reads_the_columns_of_the_filter(ours: LanceDataset) -> None:
    scan = ours.scanner(filter="int % 2 = 1", order_by=["text"], with_row_id=True)
    text = scan.analyze_plan(count_rows=True)
    assert f"Rows: {scan.count_rows()}" in text
    assert "int (filter)" in text
    assert "text" not in text
    assert "text (order, output)" in scan.analyze_plan()


def test_columns_that_no_array_can_hold_are_sorted_in_parts(
    ours: LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of more than 2 GiB together need several arrays; a small limit stands for it here."""
    order = [ColumnOrdering("text", ascending=False), ColumnOrdering("id")]
    expected = ours.to_table(order_by=order)
    joined = ordered.concatenated

    def limited(parts: list[pa.Array]) -> pa.Array:
        if sum(map(len, parts)) > 700:
            raise pa.ArrowCapacityError("overflow")
        return joined(parts)

    monkeypatch.setattr(ordered, "concatenated", limited)
    found = ours.scanner(order_by=order)
    assert_tables_equal(expected, found.to_table())
    assert {batch.num_rows for batch in found.to_batches()} <= set(range(701))


def waiting() -> AbstractContextManager[None]:
    """Read for a caller, as a server does."""
    return Reader(lambda: None, most_bytes=1 << 30).waiting()


@pytest.mark.parametrize("name", ["int", "double", "text", "kind", "point", "_rowid"])
@pytest.mark.parametrize("arguments", [{}, {"limit": 2000, "offset": 10}, {"filter": "int > 20"}], ids=str)
def test_rows_beyond_the_memory_budget_are_taken_in_order(
    path: str, ours: LanceDataset, name: str, arguments: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T33: a caller of a server gets the same rows, of which only the columns that decide are in memory."""
    order = [ColumnOrdering(name, ascending=False)]
    expected = ours.scanner(order_by=order, **arguments).to_table()
    small = lance_core.dataset(path, session=lance_core.Session(memory_limit_bytes=expected.nbytes // 2))
    scan = small.scanner(order_by=order, batch_size=100, **arguments)
    with waiting(), monkeypatch.context() as patch:
        patch.setattr(ordered, "_sorted_in_memory", None)
        found = list(scan.to_batches())
    assert_tables_equal(expected, pa.Table.from_batches(found))
    assert max(batch.num_rows for batch in found) == 100


def test_a_server_sorts_no_more_than_its_memory_budget(path: str) -> None:
    """T33: the error says what to do. Who is alone in a process may sort everything."""
    small = lance_core.dataset(path, session=lance_core.Session(memory_limit_bytes=1 << 14))
    scan = small.scanner(order_by=["text"], columns=["text", "int"])
    with (
        waiting(),
        pytest.raises(InvalidInputError, match=r"too many rows to sort, ask for fewer.*16384 bytes"),
    ):
        list(scan.to_batches())
    with waiting():
        few = small.scanner(order_by=["text"], columns=["text", "int"], filter="id < 100").to_table()
    assert few.num_rows == small.count_rows("id < 100")
    assert scan.to_table().num_rows == small.count_rows()
