"""Changes read stored values with their checksums checked: damage is found before it is written again."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.changes.compaction import execute
from lance_core.changes.compaction.options import CompactionOptions
from lance_core.changes.compaction.plan import plan
from lance_core.errors import CorruptFileError
from lance_core.file.data_file import ModernFile
from lance_core.schema import leaves, nodes
from lance_core.storage.memory import MemoryFile
from support.runs.products import thinned

ROWS = 600
VERSIONS = ("2.0", "2.1", "2.2")
BLOB = {"lance-encoding:blob": "true"}
_SOURCE = np.random.default_rng(5)
SMALL_BLOBS = [_SOURCE.bytes(40) if row % 3 else None for row in range(ROWS)]
LARGE_BLOB = _SOURCE.bytes(100_000)
"""A blob that a 2.2 file stores in a side file."""


def a_table(version: str) -> pa.Table:
    """Columns of every kind of page that the version has."""
    rng = np.random.default_rng(4)
    numbers = rng.integers(0, 1 << 40, ROWS)
    lists = [numbers[row : row + row % 4].tolist() if row % 5 else None for row in range(ROWS)]
    columns: dict[str, pa.Array] = {
        "id": pa.array(range(ROWS)),
        "number": pa.array(numbers, mask=rng.random(ROWS) < 0.2),
        "small": pa.array(rng.integers(0, 7, ROWS), pa.int32()),
        "real": pa.array(rng.normal(size=ROWS)),
        "flag": pa.array(rng.random(ROWS) < 0.5),
        "word": pa.array([f"word {row % 7}" for row in range(ROWS)]),
        "text": pa.array([f"a longer text, number {number}" for number in numbers]),
        "bytes": pa.array([rng.bytes(600) for _ in range(ROWS)]),
        "category": pa.array([f"kind {row % 3}" for row in range(ROWS)]).dictionary_encode(),
        "runs": pa.array(np.repeat(numbers[: ROWS // 100], 100)),
        "same": pa.array(["the same and long enough to have bytes of its own"] * ROWS),
        "nothing": pa.nulls(ROWS, pa.int64()),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(ROWS * 100, np.float32)), 100),
        "list": pa.array(lists, pa.list_(pa.int64())),
        "texts": pa.array([[f"item {item}" for item in each or ()] for each in lists]),
        "point": pa.array([{"x": row, "y": f"y {row % 11}"} for row in range(ROWS)]),
        "points": pa.array([[{"x": item}] * 2 for item in range(ROWS)]),
        "image": pa.array(SMALL_BLOBS, pa.large_binary()),
    }
    schema = pa.schema(
        [
            pa.field(name, array.type, metadata=BLOB if name == "image" else None)
            for name, array in columns.items()
        ]
    )
    table = pa.Table.from_arrays(list(columns.values()), schema=schema)
    if version == "2.2":
        large = [LARGE_BLOB, *SMALL_BLOBS[1:]]
        table = table.set_column(len(columns) - 1, "image", lance.blob_array(large))
    return table


@dataclass(frozen=True)
class Damage:
    """One flipped bit."""

    column: str
    """The top-level column that it is in."""
    leaf: str
    page: int
    path: Path
    position: int


class Table:
    """A dataset in which bits are flipped, one at a time."""

    def __init__(self, version: str, path: Path) -> None:
        self.version = version
        self.path = path
        self.table = a_table(version)
        for start in (0, ROWS // 2):
            rows = self.table.slice(start, ROWS // 2)
            mode = "append" if start else "create"
            lance_core.write_dataset(rows, str(path), mode=mode, data_storage_version=version)
        file = min((path / "data").glob("*.lance"), key=lambda file: file.stat().st_mtime_ns)
        self.file = file
        self.whole = file.read_bytes()
        self.damages = list(self._damages())

    def open(self) -> lance_core.LanceDataset:
        return lance_core.dataset(str(self.path))

    def _damages(self) -> Iterator[Damage]:
        """One bit in every page, in a blob, and in a side file."""
        metadata = ModernFile(MemoryFile(self.file.name, self.whole)).metadata
        own = nodes if self.version == "2.0" else leaves
        places = [(top.name, node.name) for top in metadata.schema.fields for node in own(top)]
        for index, (column, leaf) in enumerate(places):
            for number, page in enumerate(metadata.column(index).pages):
                buffers = [(position, size) for position, size in page.buffers if size]
                if buffers:
                    position, size = buffers[index % len(buffers)]
                    yield Damage(column, leaf, number, self.file, position + size // 2)
        blob = SMALL_BLOBS[4]
        assert blob is not None
        yield Damage("image", "image", 0, self.file, self.whole.index(blob) + 7)
        for side_file in (self.path / "data").glob("*/*.blob"):
            yield Damage("image", "side file", 0, side_file, 1_000)

    def names(self) -> set[str]:
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()}

    def refuses(self, damage: Damage, change: Change) -> None:
        """The change ends with an error that names the place, and leaves nothing behind."""
        whole = damage.path.read_bytes()
        changed = bytearray(whole)
        changed[damage.position] ^= 1 << damage.position % 8
        damage.path.write_bytes(changed)
        before, version = self.names(), self.open().version
        try:
            # Where blobs are is decoded before the page of descriptors can be checked with them.
            message = None if damage.column == "image" else "checksum"
            with pytest.raises(CorruptFileError, match=message) as caught:
                change(self.open(), damage.column, self.table)
            if damage.leaf != "side file":
                assert caught.value.column == damage.leaf
                assert caught.value.page == damage.page
            assert caught.value.file is not None
            assert damage.path.name in caught.value.file
            assert self.open().latest_version == version
            assert self.names() == before
        finally:
            damage.path.write_bytes(whole)


@pytest.fixture(scope="module", params=VERSIONS)
def damaged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("damaged") / request.param
    return Table(request.param, path)


Change = Callable[[lance_core.LanceDataset, str, pa.Table], object]
"""Changes a dataset, reading a column, and knowing what the dataset holds."""

_CASTS = {"small": pa.int64(), "real": pa.float32(), "word": pa.large_utf8()}
_PREDICATES = {
    "number": "number % 3 = 1",
    "small": "small % 2 = 1",
    "real": "abs(real) > 0.5",
    "flag": "NOT flag",
    "word": "word LIKE '%d 3'",
    "text": "text LIKE '%77%'",
    "runs": "runs % 2 = 1",
    "list": "array_length(list) > 1",
    "point": "point.x % 2 = 0 AND point.y LIKE '%1'",
}


def _key_source(column: str, table: pa.Table) -> pa.Table:
    return pa.table({column: table[column].slice(0, 20), "added": range(20)})


def _copy(dataset: lance_core.LanceDataset, column: str, table: pa.Table) -> None:
    elsewhere = str(Path(dataset.uri).parent / "copy")
    try:
        names = [name for name in table.column_names if name != "image"]
        lance_core.write_dataset(dataset.scanner(names), elsewhere, mode="overwrite")
    finally:
        assert not (Path(elsewhere) / "_versions").exists()


def _function(dataset: lance_core.LanceDataset, column: str, table: pa.Table) -> None:
    def added(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"added": pa.array(range(batch.num_rows))})

    dataset.add_columns(added, read_columns=[column])


def _task(dataset: lance_core.LanceDataset, column: str, table: pa.Table) -> None:
    """One task of a compaction that is spread over a cluster."""
    snapshot = dataset.snapshot
    (task,) = plan(snapshot, CompactionOptions()).tasks
    execute(snapshot, task)


def _first(dataset: lance_core.LanceDataset) -> lance_core.LanceFragment:
    return dataset.get_fragments()[0]


_ALL: Mapping[str, Change] = {
    "update": lambda dataset, *_: dataset.update({"id": "id + 1"}),
    "compaction": lambda dataset, *_: dataset.optimize.compact_files(),
    "compaction task": _task,
    "copy": _copy,
    "function": _function,
}
"""Changes that read every column, or any one."""

_SOME: Mapping[str, tuple[frozenset[str] | set[str], Change]] = {
    "merge keeps columns": (
        set(a_table("2.1").column_names) - {"id", "number", "image"},
        lambda dataset, column, _: (
            dataset.merge_insert("id")
            .when_matched_update_all()
            .execute(pa.table({"id": range(ROWS), "number": pa.array([1] * ROWS)}))
        ),
    ),
    "merge key": (
        {"id", "text", "word"},
        lambda dataset, column, table: (
            dataset.merge_insert(column)
            .when_matched_delete()
            .execute(pa.table({column: table[column].slice(250, 1)}))
        ),
    ),
    "expression": (
        {*_PREDICATES, "id", "bytes", "same"},
        lambda dataset, column, _: dataset.add_columns(
            {"added": "point.x IS NULL OR point.y IS NULL" if column == "point" else f"{column} IS NULL"}
        ),
    ),
    "cast": (
        set(_CASTS),
        lambda dataset, column, _: dataset.alter_columns({"path": column, "data_type": _CASTS[column]}),
    ),
    "join": (
        {"id", "text"},
        lambda dataset, column, table: dataset.merge(_key_source(column, table), column),
    ),
    "delete": (set(_PREDICATES), lambda dataset, column, _: dataset.delete(_PREDICATES[column])),
    "update where": (
        set(_PREDICATES),
        lambda dataset, column, _: dataset.update({"id": "id + 1"}, where=_PREDICATES[column]),
    ),
    "delete of a fragment": (
        set(_PREDICATES),
        lambda dataset, column, _: _first(dataset).delete(_PREDICATES[column]),
    ),
    "columns of a fragment": (
        {"id", "text", "small"},
        lambda dataset, column, _: _first(dataset).merge_columns({"added": f"{column} IS NULL"}),
    ),
    "values of a fragment": (
        {"id", "real"},
        lambda dataset, column, _: _first(dataset).update_columns(
            pa.table({"id": [3, 5], "real": [0.5, 0.25]}), left_on="id"
        ),
    ),
    "join of a fragment": (
        {"id", "text"},
        lambda dataset, column, table: _first(dataset).merge(_key_source(column, table), column),
    ),
}
"""Changes that read some columns."""


@pytest.mark.parametrize(("change", "damaged"), thinned([*_ALL, *_SOME], VERSIONS), indirect=["damaged"])
def test_changes_refuse_damaged_pages(change: str, damaged: Table) -> None:
    """T26: a flipped bit in any page that a change reads ends the change, which leaves nothing behind."""
    columns, run = (None, _ALL[change]) if change in _ALL else _SOME[change]
    chosen = [damage for damage in damaged.damages if columns is None or damage.column in columns]
    assert chosen
    for damage in chosen:
        if (change == "function" and damage.leaf == "side file") or (change, damage.column) == (
            "copy",
            "image",
        ):
            continue  # a function gets descriptors, and these cannot be written
        damaged.refuses(damage, run)
    assert damaged.open().to_table() is not None


def test_every_kind_of_page_is_damaged(damaged: Table) -> None:
    """No column is without bytes but those whose pages may say everything in their description."""
    without = set(damaged.table.column_names) - {damage.column for damage in damaged.damages}
    assert without <= {"nothing", "same"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_page_that_is_read_is_checked(version: str, tmp_path: Path) -> None:
    """T26: the error names the damaged page of a column of two, and rows of the other page can be changed."""
    path = tmp_path / "data"
    values = np.random.default_rng(0).integers(0, 1 << 62, 2_200_000)  # 18 MB; pages have at most 16
    table = pa.table({"value": values})
    lance_core.write_dataset(table, str(path), data_storage_version=version, max_rows_per_file=len(table))
    (file,) = (path / "data").glob("*.lance")
    whole = file.read_bytes()
    metadata = ModernFile(MemoryFile(file.name, whole)).metadata
    _, second, *_ = metadata.column(0).pages
    position, size = second.buffers[-1]
    changed = bytearray(whole)
    changed[position + size // 2] ^= 32
    file.write_bytes(changed)
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        lance_core.dataset(str(path)).delete("value % 2 = 0")
    assert (caught.value.column, caught.value.page) == ("value", 1)
    dataset = lance_core.dataset(str(path))
    with pytest.raises(CorruptFileError, match="checksum"):
        dataset.update({"value": "0"}, where="_rowid = 1500000 AND value % 2 >= 0")
    dataset.update({"value": "0"}, where="_rowid = 5 AND value % 2 >= 0")
    assert dataset.count_rows("value = 0") == 1


def test_changes_that_read_other_pages_go_on(tmp_path: Path) -> None:
    """Only what is read is checked: a damaged column does not stop changes of others."""
    path = str(tmp_path / "data")
    lance_core.write_dataset(a_table("2.1"), path, data_storage_version="2.1")
    (file,) = (tmp_path / "data" / "data").glob("*.lance")
    whole = bytearray(file.read_bytes())
    value = np.float64(a_table("2.1")["real"][77].as_py()).tobytes()
    whole[whole.index(value)] ^= 1
    file.write_bytes(whole)
    dataset = lance_core.dataset(path)
    dataset.delete("id % 10 = 3")
    dataset.add_columns({"twice": "id * 2"})
    dataset.merge_insert("id").when_not_matched_insert_all().execute(a_table("2.1").slice(0, 5))
    with pytest.raises(CorruptFileError, match="real"):
        dataset.update({"id": "id"}, where="id = 77")
    assert dataset.to_table(["id", "twice"]).num_rows == ROWS - ROWS // 10 + 1


def test_damage_since_an_earlier_change_is_found(tmp_path: Path) -> None:
    """T26: pages that this process has checked are checked again by the next change."""
    path = tmp_path / "data"
    dataset = lance_core.write_dataset(a_table("2.2"), str(path), data_storage_version="2.2")
    dataset.delete("real > 3")
    (file,) = (path / "data").glob("*.lance")
    state = file.stat()
    whole = bytearray(file.read_bytes())
    whole[whole.index(np.float64(a_table("2.2")["real"][77].as_py()).tobytes())] ^= 1
    with file.open("r+b") as opened:  # as a failing disk does it: the file looks as it did before
        opened.write(whole)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(CorruptFileError, match="real"):
        dataset.delete("real > 2.5")


def test_changes_read_through_one_module() -> None:
    """No module of the package reads rows but through `checked_reads`, which checks them."""
    folder = Path(lance_core.__file__).parent / "changes"
    for file in folder.rglob("*.py"):
        if file.name == "checked_reads.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lance_core.scan."):
                names = {alias.name for alias in node.names}
                assert not names & {
                    "stored_batches",
                    "scan_batches",
                    "scan_table",
                    "RowTaker",
                    "row_taker",
                }, file
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "LanceScanner", file
