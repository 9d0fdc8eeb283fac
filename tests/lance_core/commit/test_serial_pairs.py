"""T37: two changes that begin on one version give the result of one after the other, or the second is
refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.api.dataset.operations import LanceOperation
from lance_core.errors import LanceError

Change = Callable[[LanceDataset], object]
Content = tuple[list[str], list[str]]
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("value", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("tags", pa.list_(pa.int64())),
        pa.field("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)


def _rows(*ids: int) -> pa.Table:
    rows = [
        {
            "id": i,
            "value": 10 * i,
            "name": f"n{i}" if i % 7 else None,
            "tags": [i, i + 1] if i % 3 else [],
            "s": {"x": i, "y": f"y{i}"},
        }
        for i in ids
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _fitting(dataset: LanceDataset, rows: pa.Table) -> pa.Table:
    """Return the columns that the dataset has, with its types."""
    fields = [field for field in dataset.schema if field.name in rows.column_names]
    return rows.select([field.name for field in fields]).cast(pa.schema(fields))


def _append(*ids: int) -> Change:
    return lambda dataset: dataset.insert(_fitting(dataset, _rows(*ids)))


def _merge(*ids: int) -> Change:
    def change(dataset: LanceDataset) -> None:
        builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        builder.execute(_fitting(dataset, _rows(*ids)))

    return change


def _update_in_place(dataset: LanceDataset) -> None:
    """Other names in the first fragment."""
    fragment = dataset.get_fragments()[0]
    ids = fragment.to_table(columns=["id"])["id"]
    names = pa.table({"id": ids, "name": ["other"] * len(ids)})
    updated, fields = fragment.update_columns(names, "id", "id")
    operation = LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


CHANGES: dict[str, Change] = {
    "append": _append(1010, 1011, 1012),
    "append others": _append(1020, 1021),
    "delete few": lambda dataset: dataset.delete("id < 3"),
    "delete from two fragments": lambda dataset: dataset.delete("id >= 15"),
    "delete a fragment": lambda dataset: dataset.delete("id < 8"),
    "update few": lambda dataset: dataset.update({"value": "value + 1"}, "id < 5"),
    "update all": lambda dataset: dataset.update({"value": "value * 2"}),
    "update names": lambda dataset: dataset.update({"name": "'u'"}, "id % 2 = 0"),
    "update in place": _update_in_place,
    "merge": _merge(4, 5, 2000),
    "merge new rows": _merge(3000, 3001),
    "add a number": lambda dataset: dataset.add_columns({"w": "nullif(id, -1) + 1"}),
    "add a text": lambda dataset: dataset.add_columns({"z": "cast(nullif(id, -1) as string)"}),
    "add nulls": lambda dataset: dataset.add_columns(pa.field("nn", pa.int32())),
    "join a column": lambda dataset: dataset.merge(pa.table({"id": [1, 2, 9], "g": ["a", "b", "c"]}), "id"),
    "drop a text": lambda dataset: dataset.drop_columns(["name"]),
    "drop a number": lambda dataset: dataset.drop_columns(["value"]),
    "drop a struct": lambda dataset: dataset.drop_columns(["s"]),
    "rename": lambda dataset: dataset.alter_columns({"path": "name", "name": "title"}),
    "rename nested": lambda dataset: dataset.alter_columns({"path": "s.x", "name": "q"}),
    "cast": lambda dataset: dataset.alter_columns({"path": "value", "data_type": pa.int32()}),
    "compact": lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=100),
    "overwrite": lambda dataset: lance_core.write_dataset(
        _rows(500, 501), dataset.uri, mode="overwrite", sync=False
    ),
}
AFTERWARDS: list[Change] = [
    lambda dataset: dataset.add_columns({"later": "nullif(id, -1)"}),
    CHANGES["delete from two fragments"],
    _append(5000),
    CHANGES["compact"],
]


@pytest.mark.long
@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("first", CHANGES)
def test_a_change_that_was_overtaken(tmp_path: Path, first: str, stable_row_ids: bool) -> None:
    """By whom does not matter; both libraries read what comes of it, and of more changes after that."""
    base = tmp_path / "base"
    rows = _rows(*range(24))
    lance.write_dataset(
        rows, base, max_rows_per_file=8, data_storage_version="2.1", enable_stable_row_ids=stable_row_ids
    )
    lance.dataset(base).delete("id = 20")
    refused = []
    for second, change in CHANGES.items():
        path = tmp_path / second
        shutil.copytree(base, path)
        overtaken = lance_core.dataset(path)
        CHANGES[first](lance_core.dataset(path))
        before = _content(path)
        try:
            change(overtaken)
        except LanceError:
            refused.append(second)
            assert _content(path) == before, f"{second} was refused and changed the table"
        else:
            content = _content(path)
            orders = [(first, second), (second, first)]
            assert any(content == _one_by_one(base, tmp_path / "serial", order) for order in orders), second
        for later in AFTERWARDS:
            later(lance_core.dataset(path))
            _content(path)
        shutil.rmtree(path)
    print(f"after {first}: {len(CHANGES)} changes, {len(refused)} refused")
    assert len(refused) < len(CHANGES) / 2 or first == "overwrite"


def _one_by_one(base: Path, path: Path, order: tuple[str, str]) -> Content | None:
    """Return the result of the changes one after the other; None if the second cannot be made after the
    first.
    """
    shutil.copytree(base, path)
    try:
        for name in order:
            CHANGES[name](lance_core.dataset(path))
    except LanceError:
        return None
    else:
        return _content(path)
    finally:
        shutil.rmtree(path)


def _content(path: Path) -> Content:
    """Names of columns, and rows in no order, as both libraries read them."""
    lance_core.dataset(path).validate()
    ours, theirs = (
        (sorted(table.column_names), sorted(repr(sorted(row.items())) for row in table.to_pylist()))
        for table in (lance_core.dataset(path).to_table(), lance.dataset(path).to_table())
    )
    assert ours == theirs
    return ours
