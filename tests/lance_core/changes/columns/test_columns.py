"""Columns added, dropped and altered, on two copies of a dataset: by us, and by the reference."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from support.oracles.comparison import assert_tables_equal
from support.oracles.two_copies import TwoCopies
from support.runs.products import thinned

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
MODERN = ["2.1", "2.2"]
NUM_ROWS = 30
LIVE = NUM_ROWS - 9


def table() -> pa.Table:
    """Return a few types, nulls, structs that are null, a column without nulls."""
    numbers = range(NUM_ROWS)
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.float64(), metadata={"unit": "m"}),
            pa.field("t", pa.string(), nullable=False),
            pa.field("s", pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])),
            pa.field("l", pa.list_(pa.int64())),
        ],
        metadata={"origin": "here"},
    )
    columns = [
        [None if n % 7 == 3 else n for n in numbers],
        [n / 2 for n in numbers],
        [f"text {n}" for n in numbers],
        [{"x": n, "y": None if n % 3 else str(n)} for n in numbers],
        [[n] * (n % 4) for n in numbers],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def copies(tmp_path: Path, version: str = "2.2", *, stable_row_ids: bool = False) -> TwoCopies:
    """Three fragments, each with deleted rows: first, in the middle, in runs, last."""
    path = tmp_path / "ours"
    dataset = lance.write_dataset(
        table(),
        str(path),
        max_rows_per_file=10,
        max_rows_per_group=7,
        data_storage_version=version,
        enable_stable_row_ids=stable_row_ids,
    )
    dataset.delete(" or ".join(f"t = 'text {n}'" for n in (0, 4, 5, 9, 12, 27, 28, 29)))
    dataset.delete("t = 'text 10'")
    shutil.copytree(path, tmp_path / "theirs")
    return TwoCopies(path, tmp_path / "theirs")


def triple(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.multiply(batch.column("a"), 3)], ["n"])


def rows(num_rows: int = LIVE) -> pa.Table:
    return pa.table({"n": pa.array(range(num_rows), pa.int32()), "m": [str(n) for n in range(num_rows)]})


CHANGES: dict[str, Callable[[Any], Any]] = {
    "expression": lambda d: d.add_columns({"n": "a * 2", "m": "t"}),
    "constant": lambda d: d.add_columns({"n": "5"}),
    "function": lambda d: d.add_columns(triple, read_columns=["a"]),
    "stream": lambda d: d.add_columns(rows().to_reader(max_chunksize=4)),
    "drop": lambda d: d.drop_columns(["a", "l"]),
    "rename": lambda d: d.alter_columns({"path": "a", "name": "b"}, {"path": "b", "name": "a"}),
    "cast": lambda d: d.alter_columns({"path": "a", "data_type": pa.int32()}),
    "cast and rename": lambda d: d.alter_columns(
        {"path": "a", "data_type": pa.int16(), "name": "z"}, {"path": "b", "data_type": pa.float32()}
    ),
    "cast of text": lambda d: d.alter_columns({"path": "t", "data_type": pa.large_string()}),
    "nullable": lambda d: d.alter_columns({"path": "t", "nullable": True}),
    "not nullable": lambda d: d.alter_columns({"path": "b", "nullable": False}),
    "merge": lambda d: d.merge(pa.table({"a": [1, 2, 20, 99], "n": ["one", "two", None, "-"]}), "a"),
    "merge by another name": lambda d: d.merge(pa.table({"k": ["text 1", "text 1"], "n": [1, 2]}), "t", "k"),
    "merge by address": lambda d: d.merge(
        pa.table({"_rowaddr": pa.array([1, 1 << 32 | 1], pa.uint64()), "n": [1, 2]}), "_rowaddr"
    ),
}


@pytest.mark.parametrize(("version", "change"), thinned(VERSIONS, CHANGES))
def test_changes_are_those_of_the_reference(change: str, version: str, tmp_path: Path) -> None:
    both = copies(tmp_path, version, stable_row_ids=version in ("2.0", "2.2"))
    if version == "0.1" and "merge" in change:  # these files keep no nulls of numbers, only of text
        both.do(lambda d: d.merge(pa.table({"t": ["text 1", "text 8"], "n": ["one", None]}), "t"))
    else:
        both.do(CHANGES[change])
    both.check()
    if version != "0.1":  # where the reference adds no columns beside so many deleted rows
        both.go_on()


MODERN_CHANGES: dict[str, Callable[[Any], Any]] = {
    "nulls": lambda d: d.add_columns(
        [pa.field("n", pa.int32()), pa.field("m", pa.struct([("q", pa.int8())]))]
    ),
    "child of nulls": lambda d: d.add_columns(pa.field("s", pa.struct([("z", pa.int8())]))),
    "drop child": lambda d: d.drop_columns(["s.x"]),
    "drop all children": lambda d: d.drop_columns(["s.x", "s.y"]),
    "rename child": lambda d: d.alter_columns({"path": "s.x", "name": "xx"}),
    "cast child": lambda d: d.alter_columns({"path": "s.x", "data_type": pa.int8()}),
    "cast list": lambda d: d.alter_columns({"path": "l", "data_type": pa.large_list(pa.int16())}),
    "child not nullable": lambda d: d.alter_columns({"path": "s.x", "nullable": False}),
    "merge by row id": lambda d: d.merge(
        pa.table({"_rowid": pa.array([1, 11], pa.uint64()), "n": [1, 2]}), "_rowid"
    ),
    "cast and drop": lambda d: (
        d.alter_columns({"path": "a", "data_type": pa.int32()}),
        d.drop_columns(["a"]),
        d.add_columns({"n": "b"}),
    ),
    "add and drop": lambda d: (d.add_columns({"n": "a"}), d.drop_columns(["n"]), d.add_columns({"m": "b"})),
}


@pytest.mark.parametrize(("change", "stable_row_ids"), thinned(MODERN_CHANGES, [False, True]))
def test_changes_of_children_and_nulls_are_those_of_the_reference(
    change: str, stable_row_ids: bool, tmp_path: Path
) -> None:
    both = copies(tmp_path, stable_row_ids=stable_row_ids)
    both.do(MODERN_CHANGES[change])
    both.check()
    both.go_on()


def lists_of_structs() -> pa.Table:
    """Return lists of structs, with nulls and empty lists, in a column and within a struct."""
    values = [
        [{"x": 1, "y": {"z": "a"}}, None],
        None,
        [],
        [{"x": None, "y": None}],
        [{"x": 5, "y": {"z": None}}, {"x": 6, "y": {"z": "b"}}, {"x": 7, "y": None}],
    ]
    item = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])
    lists = pa.array((values * 4)[:NUM_ROWS], pa.list_(item))
    large = pa.array(
        [{"l": value} for value in reversed(lists.to_pylist())], pa.struct([("l", pa.list_(item))])
    )
    return pa.table({"id": range(len(lists)), "l": lists, "s": large, "n": [[n] for n in range(len(lists))]})


LIST_CHANGES: dict[str, Callable[[Any], Any]] = {
    "rename": lambda d: d.alter_columns(
        {"path": "l.item.x", "name": "w"}, {"path": "s.l.item.y.z", "name": "v"}
    ),
    "rename items": lambda d: d.alter_columns({"path": "s.l.item", "name": "element"}),
    "cast": lambda d: d.alter_columns(
        {"path": "l.item.x", "data_type": pa.int64()},
        {"path": "s.l.item.x", "data_type": pa.int16()},
    ),
    "cast items": lambda d: d.alter_columns({"path": "n.item", "data_type": pa.int16()}),
    "drop": lambda d: d.drop_columns(["l.item.x", "s.l.item.y.z"]),
    "drop items": lambda d: d.drop_columns(["l.item", "s.l.item.x"]),
    "children of nulls": lambda d: d.add_columns(
        [pa.field("l", pa.list_(pa.struct([("y", pa.struct([("n", pa.int8())])), ("m", pa.int8())])))]
    ),
}


@pytest.mark.parametrize("deleted", ["false", "id % 3 = 0"])
@pytest.mark.parametrize("change", LIST_CHANGES)
def test_changes_within_lists_are_those_of_the_reference(change: str, deleted: str, tmp_path: Path) -> None:
    """Rows that were deleted before a cast have lists of other lengths in the new file of the reference."""
    lance.write_dataset(lists_of_structs(), str(tmp_path / "ours"), max_rows_per_file=7).delete(deleted)
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    both = TwoCopies(tmp_path / "ours", tmp_path / "theirs")
    both.do(LIST_CHANGES[change])
    both.check()
    theirs, ours = lance.dataset(str(both.theirs)), lance_core.dataset(both.theirs)
    assert_tables_equal(theirs.to_table(), ours.to_table())
    assert_tables_equal(theirs.take([5, 1, 3]), ours.take([5, 1, 3]))
    both.go_on()


def test_other_items_are_no_new_children_of_a_list(tmp_path: Path) -> None:
    ours = lance_core.write_dataset(lists_of_structs(), tmp_path)
    for items in (pa.field("element", pa.struct([("n", pa.int8())])), pa.field("item", pa.int8())):
        with pytest.raises(InvalidInputError, match="exists already"):
            ours.add_columns(pa.field("l", pa.list_(items)))
    with pytest.raises(UnsupportedFeatureError, match="non-nullable"):
        ours.alter_columns({"path": "l.item.x", "nullable": False})


REFUSED: dict[str, Callable[[Any], Any]] = {
    "column exists": lambda d: d.add_columns({"a": "b"}),
    "unknown column": lambda d: d.add_columns({"n": "zz"}),
    "row offsets": lambda d: d.add_columns({"n": "_rowoffset"}),
    "row ids": lambda d: d.add_columns({"n": "_rowid + 1"}),
    "too few rows": lambda d: d.add_columns(rows(LIVE - 1).to_reader()),
    "too many rows": lambda d: d.add_columns(rows(LIVE + 1).to_reader()),
    "not nullable nulls": lambda d: d.add_columns(pa.field("n", pa.int8(), nullable=False)),
    "function of fewer rows": lambda d: d.add_columns(lambda batch: triple(batch).slice(1)),
    "drop all": lambda d: d.drop_columns(["a", "b", "t", "s", "l"]),
    "drop unknown": lambda d: d.drop_columns(["zz"]),
    "drop in other case": lambda d: d.drop_columns(["A"]),
    "rename to another": lambda d: d.alter_columns({"path": "a", "name": "b"}),
    "rename with a dot": lambda d: d.alter_columns({"path": "a", "name": "a.b"}),
    "nulls forbidden": lambda d: d.alter_columns({"path": "a", "nullable": False}),
    "cast to text": lambda d: d.alter_columns({"path": "a", "data_type": pa.string()}),
    "cast to float": lambda d: d.alter_columns({"path": "a", "data_type": pa.float64()}),
    "cast and not nullable": lambda d: d.alter_columns(
        {"path": "b", "data_type": pa.float32(), "nullable": False}
    ),
    "cast of a struct": lambda d: d.alter_columns({"path": "s", "data_type": pa.struct([("x", pa.int8())])}),
    "no change": lambda d: d.alter_columns({"path": "a"}),
    "no path": lambda d: d.alter_columns({"name": "a"}),
    "unknown key": lambda d: d.alter_columns({"path": "a", "nam": "b"}),
    "alter unknown": lambda d: d.alter_columns({"path": "zz", "name": "b"}),
    "merge without left key": lambda d: d.merge(pa.table({"zz": [1], "n": [1]}), "zz"),
    "merge without right key": lambda d: d.merge(pa.table({"zz": [1], "n": [1]}), "a"),
    "merge of other types": lambda d: d.merge(pa.table({"a": pa.array([1], pa.int8()), "n": [1]}), "a"),
    "merge of a known column": lambda d: d.merge(pa.table({"a": [1], "b": [1.0]}), "a"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_both_refuse_the_same(change: str, tmp_path: Path) -> None:
    both = copies(tmp_path)
    with pytest.raises((ValueError, OSError, TypeError)):
        REFUSED[change](lance.dataset(str(both.theirs)))
    files = sorted((both.ours / "data").iterdir())
    with pytest.raises(InvalidInputError):
        REFUSED[change](lance_core.dataset(both.ours))
    assert sorted((both.ours / "data").iterdir()) == files
    assert lance_core.dataset(both.ours).version == 3


def test_a_value_that_does_not_fit_the_new_type(tmp_path: Path) -> None:
    both = copies(tmp_path)
    both.do(lambda d: d.add_columns({"n": "a * 100"}))
    files = sorted((both.ours / "data").iterdir())
    with pytest.raises(InvalidInputError, match="n"):
        lance_core.dataset(both.ours).alter_columns({"path": "n", "data_type": pa.int8()})
    assert sorted((both.ours / "data").iterdir()) == files


def test_columns_without_values_in_a_legacy_table(tmp_path: Path) -> None:
    both = copies(tmp_path, "0.1")
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1"):
        lance_core.dataset(both.ours).add_columns(pa.field("n", pa.int8()))


def test_fields_of_structs_cannot_be_cast_where_structs_own_columns(tmp_path: Path) -> None:
    both = copies(tmp_path, "2.0")
    with pytest.raises(UnsupportedFeatureError, match="struct"):
        lance_core.dataset(both.ours).alter_columns({"path": "s.x", "data_type": pa.int8()})


@pytest.mark.parametrize(
    ("values", "data_type"),
    [(["a", "b", "a"], pa.string()), (["a", "b", "a"], pa.large_string()), ([1, 2, 1], pa.int64())],
    ids=str,
)
def test_dictionaries_of_a_legacy_table_become_their_values(
    tmp_path: Path, values: list[str | int], data_type: pa.DataType
) -> None:
    """The values lie in the manifest, which has to be known where the column is read."""
    rows = pa.table({"kind": pa.array(values).dictionary_encode(), "n": [1, 2, 3]})
    for name in ("ours", "theirs"):
        lance.write_dataset(rows, str(tmp_path / name), data_storage_version="0.1")
    both = TwoCopies(tmp_path / "ours", tmp_path / "theirs")
    both.do(lambda d: d.alter_columns({"path": "kind", "data_type": data_type}))
    both.check()
    assert lance_core.dataset(both.ours).to_table()["kind"].to_pylist() == values


def test_all_rows_of_a_fragment_deleted(tmp_path: Path) -> None:
    both = copies(tmp_path)
    for dataset in (lance_core.dataset(both.ours), lance.dataset(str(both.theirs))):
        lance.dataset(str(dataset.uri)).delete("b >= 5 and b < 10")
    both.do(lambda d: d.add_columns({"n": "a", "c": "7"}))
    both.check()
    both.go_on()


def test_a_dataset_without_rows(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        lance.write_dataset(table().slice(0, 0), str(tmp_path / name))
    both = TwoCopies(tmp_path / "ours", tmp_path / "theirs")
    both.do(lambda d: d.add_columns({"n": "a"}))
    both.do(lambda d: d.alter_columns({"path": "a", "data_type": pa.int8()}))
    both.check()


def test_casts_between_all_types(tmp_path: Path) -> None:
    """Casts are allowed between the pairs of types that the reference allows, and give equal values."""
    values = pa.table(
        {
            "int": pa.array([1, None, 3], pa.int64()),
            "float": pa.array([1.5, None, 3], pa.float32()),
            "day": pa.array([1, None, 3], pa.date32()),
            "time": pa.array([0, None, 3 * 86_400 * 10**6], pa.timestamp("us")),
            "bool": pa.array([True, None, False]),
            "text": ["a", None, "c"],
            "bytes": pa.array([b"a", None, b"c"]),
            "decimal": pa.array([1, None, 3], pa.decimal128(5, 1)),
            "vector": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
            "kind": pa.array(["a", None, "a"]).dictionary_encode(),
        }
    )
    types = [
        pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.date64(), pa.timestamp("ns"),
        pa.timestamp("us", "UTC"), pa.large_string(), pa.large_binary(), pa.decimal256(40, 2),
        pa.list_(pa.int64(), 2), pa.dictionary(pa.int8(), pa.int64()), pa.dictionary(pa.int8(), pa.string()),
        pa.string(),
    ]  # fmt: skip
    lance.write_dataset(values, str(tmp_path / "start"))
    accepted = 0
    for name in values.column_names:
        for data_type in types:
            alteration = {"path": name, "data_type": data_type}
            results = []
            for library in ("ours", "theirs"):
                shutil.copytree(tmp_path / "start", tmp_path / library, dirs_exist_ok=True)
                uri = str(tmp_path / library)
                dataset = lance_core.dataset(uri) if library == "ours" else lance.dataset(uri)
                try:
                    dataset.alter_columns(alteration)
                    results.append(lance.dataset(uri).to_table())
                except (ValueError, OSError):
                    results.append(None)
                shutil.rmtree(uri)
            ours, theirs = results
            assert (ours is None) == (theirs is None), (name, data_type)
            if ours is not None and theirs is not None:
                accepted += 1
                assert_tables_equal(theirs, ours, label=f"{name} to {data_type}")
    assert accepted > 15


TIMES: dict[str, tuple[pa.Array, pa.DataType]] = {
    "coarser time": (pa.array([1_500, -1_500, -1, None], pa.timestamp("ms")), pa.timestamp("s")),
    "coarser time of day": (pa.array([1_500, 1, 0, None], pa.time32("ms")), pa.time32("s")),
    "coarser duration": (pa.array([1_500, -1_500, -1, None], pa.duration("ms")), pa.duration("s")),
    "local time": (pa.array([0, 1_711_843_200, None], pa.timestamp("s")), pa.timestamp("s", "Europe/Berlin")),
    "other zone": (pa.array([0, None], pa.timestamp("s", "Asia/Tokyo")), pa.timestamp("ms", "+05:30")),
    "no zone": (pa.array([0, None], pa.timestamp("s", "Asia/Tokyo")), pa.timestamp("ms")),
    "day": (pa.array([0, -1, None], pa.timestamp("s", "Asia/Tokyo")), pa.date32()),
    "midnight": (pa.array([0, 19_000, None], pa.date32()), pa.timestamp("s", "America/New_York")),
    "fewer digits": (pa.array([Decimal("1.25"), Decimal("-1.25"), None]), pa.decimal128(10, 1)),
}


@pytest.mark.parametrize("nesting", ["plain", "list", "fixed-size list"])
@pytest.mark.parametrize("case", TIMES)
def test_casts_round_as_in_the_reference(case: str, nesting: str, tmp_path: Path) -> None:
    """Finer times are cut off, decimals are rounded, and local times belong to the zone of the new type."""
    values, data_type = TIMES[case]
    if nesting == "list":
        values, data_type = (
            pa.ListArray.from_arrays(pa.array([0, 0, len(values)], pa.int32()), values),
            pa.list_(data_type),
        )
    elif nesting == "fixed-size list":
        values, data_type = pa.FixedSizeListArray.from_arrays(values, 1), pa.list_(data_type, 1)
    lance.write_dataset(pa.table({"a": values, "id": range(len(values))}), str(tmp_path / "ours"))
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    both = TwoCopies(tmp_path / "ours", tmp_path / "theirs")
    both.do(lambda d: d.alter_columns({"path": "a", "data_type": data_type}))
    both.check()


KEYS = [
    (pa.array([float("nan"), -0.0, 0.0, None, 1.5]), pa.array([float("nan"), 0.0, None, 1.5])),
    (pa.array(["a", None, "b"]), pa.array([None, "a", "a"])),
    (pa.array([b"a", None, b"b"]), pa.array([None, b"a", b"a"])),
    (pa.array([True, False, None]), pa.array([False, None])),
    (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()),
    *((pa.array([1, 2], t), pa.array([2], t)) for t in (pa.uint8(), pa.date32(), pa.timestamp("us", "UTC"))),
    *((pa.array([1, 2], t), pa.array([2], t)) for t in (pa.decimal128(5, 1), pa.time64("us"), pa.float32())),
    (pa.array([b"aaaa", b"bbbb"], pa.binary(4)), pa.array([b"bbbb"], pa.binary(4))),
]


@pytest.mark.parametrize(("left", "right"), KEYS, ids=lambda keys: str(keys.type))
def test_keys_are_the_same_as_in_the_reference(left: pa.Array, right: pa.Array, tmp_path: Path) -> None:
    """Nulls and NaN are equal to themselves, zeros of other signs are not; of equal keys the last counts."""
    found = []
    for library in (lance_core, lance):
        path = str(tmp_path / library.__name__)
        lance.write_dataset(pa.table({"k": left}), path)
        dataset = library.dataset(path)
        dataset.merge(pa.table({"k": right, "n": range(len(right))}), "k")
        found.append(lance.dataset(path).to_table()["n"].to_pylist())
    assert found[0] == found[1]
    assert any(number is not None for number in found[0])


def test_keys_that_are_not_compared(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"k": [{"x": 1}]}), str(tmp_path / "d"))
    with pytest.raises(UnsupportedFeatureError, match="struct"):
        lance_core.dataset(tmp_path / "d").merge(pa.table({"k": [{"x": 1}], "n": [1]}), "k")


def test_a_function_gets_the_columns_and_rows_that_it_asks_for(tmp_path: Path) -> None:
    both = copies(tmp_path)
    seen: list[tuple[list[str], int]] = []

    @lance_core.batch_udf(output_schema=pa.schema([pa.field("n", pa.int64())]))
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append((batch.schema.names, batch.num_rows))
        return triple(batch)

    dataset = lance_core.dataset(both.ours)
    dataset.add_columns(function, read_columns=["a", "_rowid"], batch_size=3)
    assert {tuple(names) for names, _ in seen} == {("a", "_rowid")}
    assert sum(count for _, count in seen) == LIVE
    assert max(count for _, count in seen) <= 3
    assert dataset.to_table()["n"].equals(pc.multiply(dataset.to_table()["a"], 3))


@pytest.mark.parametrize("version", MODERN)
def test_indices_stay_right(version: str, tmp_path: Path) -> None:
    """Queries of the reference through its indices, after our change of the columns beside and below."""
    path = tmp_path / "d"
    dataset = lance.write_dataset(table(), str(path), max_rows_per_file=10, data_storage_version=version)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("t", "BTREE")
    ours = lance_core.dataset(path)
    with pytest.raises(InvalidInputError, match="index"):
        ours.alter_columns({"path": "a", "data_type": pa.int32()})
    ours.add_columns({"n": "a + 1"})
    ours.alter_columns({"path": "a", "name": "renamed"})
    theirs = lance.dataset(str(path))
    assert [index.name for index in theirs.describe_indices()] == ["a_idx", "t_idx"]
    assert "ScalarIndexQuery" in theirs.scanner(filter="renamed = 12").explain_plan()
    assert theirs.to_table(filter="renamed = 12")["n"].to_pylist() == [13]
    ours.drop_columns(["renamed"])
    theirs = lance.dataset(str(path))
    assert [index.name for index in theirs.describe_indices()] == ["t_idx"]
    assert theirs.to_table(filter="t = 'text 12'")["n"].to_pylist() == [13]
    assert theirs.validate() is None


def test_the_same_transaction_is_not_applied_twice(tmp_path: Path) -> None:
    both = copies(tmp_path)
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    first, again = lance_core.dataset(both.ours), lance_core.dataset(both.ours)
    first.add_columns({"n": "a"}, transaction_id=uuid)
    first.drop_columns(["b"])
    again.add_columns({"n": "a"}, transaction_id=uuid)
    assert again.version == 4
    assert first.version == 5
    assert lance.dataset(str(both.ours)).version == 5


def _joined_types() -> dict[str, pa.Array]:
    """Columns that Arrow makes no empty table of, or takes no rows of where they are cut."""
    halves = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None] * 4, pa.int8()), pa.array(np.array([1.5, 2.5], np.float16))
    )
    uuids = pa.array([bytes([number] * 16) for number in range(12)], pa.uuid())
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(72)), 3)
    return {
        "dictionary of halves": halves,
        "struct of uuid": pa.StructArray.from_arrays([uuids], ["u"]),
        "vectors of vectors": pa.FixedSizeListArray.from_arrays(vectors, 2),
    }


@pytest.mark.parametrize("kind", list(_joined_types()))
def test_other_rows_may_be_a_part_of_a_table(kind: str, tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"k": range(12)}), tmp_path, data_storage_version="2.2")
    given = pa.table({"k": range(12), "new": _joined_types()[kind]}).slice(2, 9)

    dataset.merge(given, "k")

    found = dataset.to_table()
    found.validate(full=True)
    expected = [None, None, *given["new"].to_pylist(), None]
    assert repr(found["new"].to_pylist()) == repr(expected)
    more = pa.table({"k": range(30, 42), "new": _joined_types()[kind]}).slice(3)
    more = pa.concat_tables([more, given.slice(4).replace_schema_metadata(None)])
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(more)
    by_key = dict(zip(range(12), expected, strict=True))
    by_key |= dict(zip(more["k"].to_pylist(), more["new"].to_pylist(), strict=True))
    rows = sorted(dataset.to_table().to_pylist(), key=lambda row: row["k"])
    assert repr(rows) == repr([{"k": key, "new": value} for key, value in sorted(by_key.items())])


def test_types_by_name(tmp_path: Path) -> None:
    """A type may be the name that a CAST has for it, and new columns of nulls are types by name."""
    both = copies(tmp_path)
    ours = lance_core.dataset(both.ours)
    longer: lance_core.AlterColumn = {"path": "t", "data_type": pa.large_string()}
    ours.alter_columns({"path": "a", "data_type": "int"}, longer)
    assert ours.schema.field("a").type == pa.int32()
    ours.add_columns({"n": pa.int16(), "v": pa.list_(pa.float32(), 2)})
    assert ours.schema.types[-2:] == [pa.int16(), pa.list_(pa.float32(), 2)]
    assert ours.to_table()["v"].null_count == ours.count_rows()


@pytest.mark.parametrize(
    ("alterations", "message"),
    [
        ([[{"path": "a", "name": "n"}]], r"dicts, one argument each.*found a list"),
        (["a"], r"dicts, one argument each.*found a str"),
        ([{"path": "a", "data_type": "no type"}], "not a type"),
        ([{"path": "a", "data_type": int}], r"data_type of an alteration.*type of Arrow.*<class 'int'>"),
        ([{"path": ["a"], "name": "n"}], r"path of an alteration.*text"),
        ([{"path": "a", "name": 1}], r"name of an alteration.*text.*found 1"),
        ([{"path": "a", "nullable": "no"}], r"nullable of an alteration.*True or False.*'no'"),
    ],
)
def test_alterations_that_make_no_sense(tmp_path: Path, alterations: list[Any], message: str) -> None:
    dataset = lance_core.dataset(copies(tmp_path).ours)
    version = dataset.version
    with pytest.raises(InvalidInputError, match=message):
        dataset.alter_columns(*alterations)
    assert dataset.latest_version == version


def test_new_columns_are_all_of_one_kind(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="all be SQL text, or all be Arrow types"):
        lance_core.dataset(copies(tmp_path).ours).add_columns({"n": pa.int16(), "m": "a + 1"})


def test_a_text_is_no_list_of_names(tmp_path: Path) -> None:
    """The columns `s` and `t` stay when somebody asks to drop `st`."""
    rows = pa.table({"s": [1], "t": [2], "st": [3]})
    for library in (lance, lance_core):
        dataset = library.write_dataset(rows, str(tmp_path / library.__name__))
        for names in ("st", [1], 5):
            with pytest.raises(TypeError):
                dataset.drop_columns(names)
            with pytest.raises(TypeError):
                dataset.add_columns(lambda batch: batch.rename_columns(["n"]), read_columns=names)
            with pytest.raises(TypeError):
                dataset.get_fragments()[0].merge_columns(lambda batch: batch, columns=names)
        assert dataset.version == 1
        dataset.drop_columns(("s", "t"))
        assert dataset.schema.names == ["st"]


@pytest.mark.parametrize("version", ["2.0", "2.2"])
@pytest.mark.parametrize(
    "expressions",
    [
        {"n": "CAST(NULL AS INT)"},
        {"n": "CAST(NULL AS INT)", "t": "CAST(NULL AS STRING)"},
        {"n": "CAST(NULL AS INT)", "m": "id"},
        {"n": "CAST(NULL AS INT)", "m": "1"},
    ],
    ids=lambda given: " ".join(given.values()),
)
def test_expressions_of_nulls_write_no_files(
    expressions: dict[str, str], version: str, tmp_path: Path
) -> None:
    """If all expressions are null, neither library writes files."""
    tables, files = [], []
    for name, library in (("ours", lance_core), ("theirs", lance)):
        uri = str(tmp_path / name)
        dataset = library.write_dataset(
            pa.table({"id": range(4)}), uri, max_rows_per_file=2, data_storage_version=version
        )
        dataset.add_columns(expressions)
        for reader in (lance_core, lance):
            tables.append(reader.dataset(uri).to_table())
        files.append([len(fragment.data_files()) for fragment in dataset.get_fragments()])
    assert files[0] == files[1]
    for table in tables[1:]:
        assert_tables_equal(table, tables[0])
