"""Single rows by offset, row id and row address, beside the reference."""

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError, InvalidInputError
from lance_core.file.metadata import read_file_metadata
from lance_core.pool import run_all
from lance_core.process.readers import Reader
from lance_core.proto import table_pb2
from lance_core.scan.files.cache import FileCache
from lance_core.scan.plan.bind import bind_columns
from lance_core.scan.plan.options import DEFAULT_BATCH_BYTES, ScanOptions
from lance_core.scan.plan.projection import project, project_taken
from lance_core.scan.run.budget import MemoryBudget
from lance_core.scan.scanner import row_taker
from lance_core.scan.take.keys import as_keys
from lance_core.scan.take.row_taker import RowTaker
from lance_core.scan.take.taker_cache import TakerCache
from lance_core.storage import LocalStorage
from lance_core.table.snapshot import open_snapshot
from support.files.manifests import edit_manifest
from support.oracles.comparison import assert_tables_equal
from support.runs.each_case import each_case

ROWS = 5000


def rows(first, count):
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": pa.array([None if k % 7 == 0 else "x" * (k % 50) for k in numbers]),
            "flag": [k % 3 == 0 for k in numbers],
            "list": [list(range(k % 4)) for k in numbers],
            "point": [{"x": k, "name": str(k)} for k in numbers],
            "vector": pa.array([[k, 0.5] for k in numbers], pa.list_(pa.float32(), 2)),
            "colour": pa.array([("red", "green", "blue")[k % 3] for k in numbers]).dictionary_encode(),
        }
    )


@pytest.fixture(
    scope="module", params=[("2.0", False), ("2.1", True), ("2.2", False), ("2.2", True)], ids=str
)
def reference(request, tmp_path_factory):
    """Several fragments; rows deleted in two of them, others moved by an update."""
    version, stable = request.param
    path = str(tmp_path_factory.mktemp("take") / "t.lance")
    lance.write_dataset(
        rows(0, ROWS),
        path,
        max_rows_per_file=1800,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    lance.dataset(path).delete("id % 10 = 3 OR id BETWEEN 2000 AND 2100")
    lance.dataset(path).update({"text": "'moved'"}, where="id % 100 = 1")
    return lance.dataset(path)


@pytest.fixture
def ours(reference):
    return lance_core.dataset(reference.uri)


def keys(name, dataset):
    """Offsets that are scattered, in order, dense, repeated, at both ends, and none."""
    count = dataset.count_rows()
    scattered = np.random.default_rng(5).integers(0, count, 200)
    return {
        "scattered": scattered.tolist(),
        "ordered": sorted(set(scattered.tolist())),
        "dense": list(range(1000, 3000)),
        "repeated": [7, 7, 7, 3, 7],
        "ends": [count - 1, 0],
        "none": [],
    }[name]


@each_case("name", ["scattered", "ordered", "dense", "repeated", "ends", "none"])
@each_case("columns", [None, ["text", "_rowid", "id", "_rowaddr"]])
def test_offsets(reference, ours, name, columns):
    offsets = keys(name, reference)
    assert_tables_equal(reference.take(offsets, columns=columns), ours.take(offsets, columns=columns))


@each_case("name", ["scattered", "ordered", "dense", "repeated", "ends"])
def test_row_ids(reference, ours, name):
    every_id = reference.to_table(columns=[], with_row_id=True)["_rowid"].to_numpy()
    ids = every_id[keys(name, reference)]
    columns = ["id", "text", "_rowid"]
    expected = reference._take_rows(ids.tolist(), columns=columns)
    assert_tables_equal(expected, ours._take_rows(ids, columns=columns))


def test_ids_of_rows_that_are_gone_are_left_out(reference, ours):
    deleted = [3, 13, 1, 0, 2050 - 1800 + (1 << 32)]
    if ours.has_stable_row_ids:
        deleted[-1] = 2050
        deleted.append(1 << 60)
    expected = reference._take_rows(deleted, columns=["id"])
    assert expected.num_rows < len(deleted)
    assert_tables_equal(expected, ours._take_rows(deleted, columns=["id"]))


def test_addresses(ours):
    everything = ours.to_table(columns=["id", "_rowaddr"])
    chosen = [4000, 0, 17, 17, 2500]
    addresses = everything["_rowaddr"].to_numpy()[chosen]
    batch = row_taker(ours.snapshot, ["id", "_rowaddr"]).by_address(as_keys(addresses, "addresses"))
    assert_tables_equal(everything.take(chosen), pa.Table.from_batches([batch]))


@each_case("kind", [pa.array, np.array, list, lambda keys: pa.chunked_array([keys[:1], keys[1:]])])
def test_keys_may_be_any_array_of_integers(ours, kind):
    assert ours.take(kind([5, 2]))["id"].to_pylist() == ours.to_table(["id"])["id"].take([5, 2]).to_pylist()


@each_case("version", ["2.1", "2.2"])
@each_case(
    "columns",
    [
        ["p.n.a", "p.x"],
        ["p.x", "a", "p.n.b"],
        ["a", "p.n"],
        ["p.n.a", "p"],
        ["p", "p.x", "p"],
        ["a", "a"],
        ["`p`.x"],
        ["l.item.z"],
        ["_rowid", "p.x", "_rowaddr", "l"],
    ],
)
def test_paths_narrow_their_column(tmp_path, version, columns):
    """Other than in a scan, where each path is a column of its own."""
    table = pa.table(
        {
            "a": range(6),
            "p": [{"x": 1, "n": {"a": "q", "b": 2}}, None, {"x": 3, "n": None}] * 2,
            "l": [[{"z": 1, "w": 2}], None, []] * 2,
        }
    )
    theirs = lance.write_dataset(table, str(tmp_path), data_storage_version=version)
    ours = lance_core.dataset(tmp_path)
    assert_tables_equal(theirs.take([4, 0, 1], columns=columns), ours.take([4, 0, 1], columns=columns))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_structs_and_lists_of_children_that_no_file_stores(tmp_path: Path, version: str) -> None:
    """A leaf that is not projected tells which structs are null, and how long lists are."""

    def rows(*names: str) -> pa.Table:
        part = pa.struct([(name, pa.int32()) for name in names])
        part_type = pa.struct([("part", part), ("list", pa.list_(part)), ("text", pa.string())])
        missing = {} if version == "2.0" else None  # 2.0 files do not store null structs
        values = [
            {"part": {"a": 1}, "list": [{"a": 1}, {"a": None}], "text": "x"},
            {"part": missing, "list": [missing], "text": None},
            {"part": {"a": None}, "list": [], "text": "y"},
            {"part": missing, "list": None} if version == "2.0" else None,
        ]
        return pa.table({"s": pa.array(values, part_type)})

    theirs = lance.write_dataset(rows("a", "b"), tmp_path / "rows.lance", data_storage_version=version)
    theirs = lance.write_dataset(rows("a"), theirs, mode="append")
    ours = lance_core.dataset(tmp_path / "rows.lance")
    for columns in (
        ["s.part.b"],
        ["s.list.item.b"],
        ["s.part.b", "s.list.item.b"],
        ["s.part.b", "s.text"],
        ["s.list.item.b", "s.part.a"],
        ["s.part", "s.list.item.b"],
    ):
        for offsets in ([0, 1, 2, 3, 4, 5, 6, 7], [7, 4, 6, 5, 4], [3, 0]):
            expected = theirs.take(offsets, columns=columns)
            assert_tables_equal(expected, ours.take(offsets, columns=columns), label=str(columns))


def test_a_map_tells_which_structs_are_null(tmp_path: Path) -> None:
    both = pa.struct([("map", pa.map_(pa.string(), pa.int8())), ("b", pa.int8())])
    rows = [
        pa.array([{"map": [("k", 1)]}, None, {"map": None}], kind) for kind in (both, pa.struct([both[0]]))
    ]
    theirs = lance.write_dataset(pa.table({"s": rows[0]}), tmp_path / "rows.lance")
    theirs = lance.write_dataset(pa.table({"s": rows[1]}), theirs, mode="append")
    ours = lance_core.dataset(tmp_path / "rows.lance")
    assert_tables_equal(theirs.take([5, 4, 3, 0], columns=["s.b"]), ours.take([5, 4, 3, 0], columns=["s.b"]))
    assert ours.count_rows("s.b IS NULL OR s.b > 1") == theirs.count_rows("s.b IS NULL OR s.b > 1") == 6


@each_case("name", ["point.nope", "point.x.y", "list.nope", "vector.item", "nope.x", "_rowid.x"])
def test_paths_that_lead_nowhere_are_named(ours, name):
    with pytest.raises(InvalidInputError, match=name.split(".")[0]):
        ours.take([0], columns=[name])


def test_fragments_count_their_own_rows(reference, ours):
    for theirs, mine in zip(reference.get_fragments(), ours.get_fragments(), strict=True):
        offsets = list(range(0, theirs.count_rows(), 13))
        assert_tables_equal(theirs.take(offsets), mine.take(offsets))
        with pytest.raises(InvalidInputError, match="out of range"):
            mine.take([theirs.count_rows()])


def test_many_rows_come_in_bounded_batches(tmp_path):
    """T33: a caller that takes every row again and again holds a few rows at a time."""
    lance.write_dataset(pa.table({"x": [bytes([row]) * 10_000 for row in range(200)]}), str(tmp_path))
    taker = row_taker(lance_core.dataset(tmp_path).snapshot, None)
    offsets = np.random.default_rng(1).integers(0, 200, 5000)
    batches = list(
        taker.batches(taker.addresses.at_offsets(as_keys(offsets, "offsets")), aimed_bytes=1 << 20)
    )
    assert [value[0] for batch in batches for value in batch["x"].to_pylist()] == offsets.tolist()
    assert max(batch.nbytes for batch in batches) < 2 << 20
    assert 45 < len(batches) < 60


def test_takes_like_the_last_one_are_one_batch(tmp_path):
    """T33: the size of rows is estimated from the last take, unless far more rows are taken."""
    rows = [b"x" * (1 if row < 2000 else 10_000) for row in range(4000)]
    lance.write_dataset(pa.table({"x": rows}), str(tmp_path))
    taker = row_taker(lance_core.dataset(tmp_path).snapshot, None)

    def taken(start: int, num_rows: int) -> list[pa.RecordBatch]:
        offsets = taker.addresses.at_offsets(np.arange(start, start + num_rows, dtype=np.uint64))
        return list(taker.batches(offsets, aimed_bytes=1 << 20))

    assert len(taken(0, 100)) > 1
    assert len(taken(0, 100)) == 1
    assert len(taken(5, 1)) == 1
    assert next(batch.num_rows for batch in taken(2000, 2000)) == 16
    assert max(batch.nbytes for batch in taken(2000, 2000)) < 2 << 20


def test_no_columns_leave_the_number_of_rows(ours):
    assert ours.take([4, 4, 1], columns=[]).num_rows == 3
    assert ours.take([], columns=[]).num_rows == 0


def test_what_is_not_there_is_named(reference, ours):
    with pytest.raises(InvalidInputError, match=str(1 << 40)):
        ours.take([0, 1 << 40])
    with pytest.raises(InvalidInputError, match="nope"):
        ours.take([0], columns=["nope"])
    with pytest.raises(InvalidInputError, match="nope"):
        ours.take([0], columns={"a": "nope = 1"})
    taker = row_taker(ours.snapshot, None)
    for address, words in (
        ((7 << 32) + 2, "fragment that does not exist"),
        (1800, "out of range in fragment 0"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            taker.by_address(as_keys([0, address], "addresses"))
        if not ours.has_stable_row_ids:
            with pytest.raises(InvalidInputError, match=words):
                ours._take_rows([0, address])
            with pytest.raises(OSError, match="Invalid user input"):
                reference._take_rows([0, address])


@each_case(
    ("wrong", "error"),
    [
        ([-1], InvalidInputError),
        (pa.array([1, -2]), InvalidInputError),
        ([1 << 64], InvalidInputError),
        ([1.5], TypeError),
        ([True], TypeError),
        ([None], TypeError),
        (pa.array([1, None]), TypeError),
        (["1"], TypeError),
        ("1", TypeError),
        (3, TypeError),
        ([[1]], TypeError),
    ],
)
def test_what_is_no_key_is_refused(ours, wrong, error):
    with pytest.raises(error, match="indices"):
        ours.take(wrong)


def test_an_id_of_two_live_rows_is_corrupt(tmp_path):
    """T22"""
    table = pa.table({"x": range(8)})
    lance.write_dataset(table, str(tmp_path), enable_stable_row_ids=True, max_rows_per_file=4)

    def repeat(message: table_pb2.Manifest) -> None:
        message.fragments[1].inline_row_ids = message.fragments[0].inline_row_ids

    edit_manifest(tmp_path, repeat)
    with pytest.raises(CorruptFileError, match="same row id"):
        lance_core.dataset(tmp_path)._take_rows([2])


def test_ids_that_were_spilled_to_a_column_are_found(tmp_path):
    path = str(tmp_path)
    dataset = lance.write_dataset(pa.table({"x": range(100)}), path, enable_stable_row_ids=True)
    dataset.update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "1"})
    dataset.update({"x": "x + 1000"}, where="x % 3 = 0")
    ids = [50, 3, 99, 4, 3]
    expected = lance.dataset(path)._take_rows(ids, columns=["x", "_rowid"])
    assert_tables_equal(expected, lance_core.dataset(path)._take_rows(ids, columns=["x", "_rowid"]))


def test_takers_are_kept_with_what_they_opened(tmp_path):
    """T33: the cache keeps a bounded number of takers, each with a bounded number of fragments."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 200), path, max_rows_per_file=4)
    ours = lance_core.dataset(path)
    cache = TakerCache(FileCache())
    taker = cache.get(ours.snapshot, ("id",))
    assert cache.get(ours.snapshot, ("id",)) is taker
    assert cache.get(ours.snapshot, ("text",)) is not taker
    assert cache.get(lance_core.dataset(path).snapshot, ("id",)) is taker  # manifests are kept, too
    assert cache.get(open_snapshot(ours.snapshot.storage), ("id",)) is not taker
    assert taker.by_offset(as_keys(range(199, -1, -1), "indices"))["id"].to_pylist() == [*range(199, -1, -1)]
    assert len(taker._open) < 50
    for number in range(20):
        cache.get(ours.snapshot, ("id",) * (number + 2))
    assert len(cache._takers) < 20
    assert cache.get(ours.snapshot, ("id",)) is not taker


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    """T14: a file opened for an earlier take is not used for another file of the same name."""
    for name, first in (("a", 0), ("b", 100)):
        lance.write_dataset(pa.table({"id": range(first, first + 5)}), str(tmp_path / name))
    ours = lance_core.dataset(tmp_path / "a")
    assert ours.take([1, 3])["id"].to_pylist() == [1, 3]
    (file_of_a,) = (tmp_path / "a" / "data").iterdir()
    (file_of_b,) = (tmp_path / "b" / "data").iterdir()
    file_of_b.replace(file_of_a)
    assert ours.take([1, 3])["id"].to_pylist() == [101, 103]


def test_jobs_share_the_calling_thread():
    """Results come in order, errors come out, and jobs that wait for other jobs do not stop each other."""
    assert run_all([partial(int, number) for number in range(100)]) == list(range(100))
    assert run_all([]) == []
    nested = [partial(run_all, [partial(int, number)] * 5) for number in range(50)]
    assert run_all(nested) == [[number] * 5 for number in range(50)]
    with pytest.raises(ZeroDivisionError):
        run_all([partial(divmod, 1, number) for number in range(10)])


@pytest.mark.parametrize(
    "nesting",
    [
        "alone",
        "in structs",
        "in lists",
        "in fixed size lists",
        "in maps",
        "in an extension",
        "in lists of an extension",
        "deep",
    ],
)
def test_pages_whose_dictionaries_outgrow_their_keys_together(nesting: str, tmp_path: Path) -> None:
    """Rows of several pages use few of the items; wherever the dictionary stands, its type stays."""

    def column(prefix: str) -> pa.Array:
        items = pa.array([f"{prefix}{number}" for number in range(100)])
        values = pa.DictionaryArray.from_arrays(pa.array(np.arange(1000) % 100, pa.int8()), items)
        if nesting == "in structs":
            return pa.StructArray.from_arrays([values], ["f"], mask=pa.array(np.arange(1000) % 7 == 0))
        if nesting == "in lists":
            return pa.ListArray.from_arrays(pa.array(np.arange(0, 1001, 2), pa.int32()), values)
        if nesting == "in fixed size lists":
            structs = pa.StructArray.from_arrays([values], ["f"])
            return pa.FixedSizeListArray.from_arrays(structs, 2, mask=pa.array(np.arange(500) % 7 == 0))
        if nesting == "in maps":
            offsets = pa.array(np.arange(0, 1001, 2), pa.int32())
            keys = pa.array(np.arange(1000) % 2)
            return pa.MapArray.from_arrays(offsets, keys, values, mask=pa.array(np.arange(500) % 7 == 0))
        if nesting == "in an extension":
            return pa.ExtensionArray.from_storage(pa.opaque(values.type, "kind", "vendor"), values)
        if nesting == "in lists of an extension":
            marked = pa.ExtensionArray.from_storage(pa.opaque(values.type, "kind", "vendor"), values)
            return pa.ListArray.from_arrays(pa.array(np.arange(0, 1001, 2), pa.int32()), marked)
        if nesting == "deep":
            pairs = pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([values], ["f"]), 2)
            return pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([pairs], ["p"]), 5)
        return values

    batches = [pa.record_batch({"c": column(prefix)}) for prefix in "ab"]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    dataset = lance_core.write_dataset(reader, tmp_path / "d", data_storage_version="2.2", max_page_bytes=900)
    whole = [value for batch in batches for value in batch["c"].to_pylist()]
    rows = [0, 3, len(whole) // 2 + 4, len(whole) - 1, 7, 0]

    taken = dataset.take(rows)

    taken.validate(full=True)
    assert taken.schema == batches[0].schema
    assert taken["c"].to_pylist() == [whole[row] for row in rows]
    assert dataset.to_table()["c"].to_pylist() == whole


def many_pages(tmp_path: Path) -> tuple[lance_core.LanceDataset, pa.Table]:
    """Several kinds of columns in many pages each, which say the same of their chunks."""
    rng = np.random.default_rng(7)
    num_rows = 30_000
    ints = pa.array(rng.integers(0, 1 << 40, num_rows), mask=rng.random(num_rows) < 0.1)
    lengths = rng.integers(0, 6, num_rows)
    lengths[:: num_rows // 7] = 5000  # longer than a chunk
    lists = pa.ListArray.from_arrays(
        pa.array(np.cumsum([0, *lengths]), pa.int32()),
        pa.array(rng.integers(0, 1 << 40, lengths.sum()), mask=rng.random(lengths.sum()) < 0.1),
        mask=pa.array(rng.random(num_rows) < 0.1),
    )
    columns = {
        "plain": pa.array(rng.random(num_rows)),
        "nulls": ints,
        "lists": lists,
        "struct": pa.StructArray.from_arrays(
            [ints, lists], ["i", "l"], mask=pa.array(rng.random(num_rows) < 0.1)
        ),
    }
    table = pa.table(columns)
    return lance_core.write_dataset(table, tmp_path / "d", max_page_bytes=40_000), table


@pytest.mark.parametrize("column", ["plain", "nulls", "lists", "struct"])
def test_rows_of_many_pages_at_once(column: str, tmp_path: Path) -> None:
    """Once all pages are known, rows are picked from them as from one."""
    dataset, table = many_pages(tmp_path)
    reference = lance.dataset(str(tmp_path / "d"))
    schema = dataset.snapshot.manifest.schema
    taker = RowTaker(dataset.snapshot, project_taken(schema, (column,)), FileCache())
    rng = np.random.default_rng(8)
    for _ in range(2):
        assert taker.by_offset(as_keys(range(table.num_rows), "indices")).equals(
            table.select([column]).combine_chunks().to_batches()[0]
        )
    (fragment,) = taker._open._open.values()
    (stored,) = fragment.columns(taker._opener)
    assert (stored.pages_at(np.arange(table.num_rows)) is None) == (column == "struct")
    if column in ("lists", "struct"):
        assert len(stored._reader._joined_cuts) < len(stored._reader._cuts)
    for count in (1, 2, 5, 100, 3000):
        rows = rng.integers(0, table.num_rows, count)
        taken = taker.by_offset(as_keys(rows, "indices"))
        taken.validate(full=True)
        assert pa.Table.from_batches([taken]).equals(reference.take(rows.tolist(), columns=[column]))


@pytest.mark.parametrize("column", ["plain", "nulls", "lists"])
def test_a_kernel_takes_rows_of_the_pages_that_it_needs(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other page is opened, and no other decoder runs."""
    dataset, table = many_pages(tmp_path)
    schema = dataset.snapshot.manifest.schema
    taker = RowTaker(dataset.snapshot, project_taken(schema, (column,)), FileCache())
    monkeypatch.setattr(taker, "_taken_alone", None)
    known: set[int] = set()
    for row in (9, 10, table.num_rows - 2, table.num_rows // 2):
        assert taker.by_offset(as_keys([row], "indices"))[column].to_pylist() == [table[column][row].as_py()]
        (fragment,) = taker._open._open.values()
        (stored,) = fragment.columns(taker._opener)
        (leaf,) = stored._reader._leaves
        known.add(leaf.page_number(row))
        assert {number for number, page in enumerate(leaf._pages) if page is not None} == known
    assert len(known) == 3 < leaf.num_pages


def test_the_page_that_is_wrong_is_named(tmp_path: Path) -> None:
    """T22: also where rows are picked from all pages at once."""
    dataset, table = many_pages(tmp_path)
    rows = list(range(0, table.num_rows, 10))
    assert dataset.take(rows, columns=["nulls"]).equals(dataset.take(rows, columns=["nulls"]))
    (path,) = (tmp_path / "d" / "data").iterdir()
    page = read_file_metadata(LocalStorage(str(path.parent)).open_file(path.name)).column(1).pages[3]
    offset, size = page.buffers[1]
    kept = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\1" * size)
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # the same file, for the cache
    with pytest.raises(CorruptFileError) as error:
        dataset.take(rows, columns=["nulls"])
    assert error.value.page == 3


@pytest.mark.parametrize("writer", [lance, lance_core], ids=["reference", "ours"])
def test_lists_of_a_fixed_size_in_2_0_files(writer, tmp_path: Path) -> None:
    """Lists of plain numbers are taken one by one, other lists with their neighbours."""
    rng = np.random.default_rng(9)
    count = 3000

    def lists(items: pa.Array, **options: pa.Array) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(items, 3, **options)

    numbers = rng.integers(0, 100, 3 * count)
    table = pa.table(
        {
            "floats": lists(pa.array(rng.random(3 * count, np.float32))),
            "nulls": lists(pa.array(numbers), mask=pa.array(rng.random(count) < 0.2)),
            "items": lists(pa.array(numbers, mask=rng.random(3 * count) < 0.2)),
            "bools": lists(pa.array(numbers < 50)),
        }
    )
    writer.write_dataset(table, str(tmp_path / "d"), data_storage_version="2.0", max_rows_per_file=2000)
    for number in (1, 7, 500):
        rows = rng.integers(0, count, number).tolist()
        assert lance_core.dataset(tmp_path / "d").take(rows).to_pylist() == table.take(rows).to_pylist()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [({"n": "n + 1"}, 1), ({"wide": "wide || x'00'"}, 1), (["n"], 16), (["wide"], 4)],
    ids=["computed", "wide and computed", "short", "wide"],
)
def test_the_first_rows_of_a_take_fit_what_is_aimed_at(tmp_path, columns, expected):
    """T29: 16 rows with many computed columns filled the memory before the size of a row was known."""
    table = pa.table({"n": range(40), "wide": [bytes(250_000)] * 40})
    snapshot = lance_core.write_dataset(table, str(tmp_path / "wide.lance")).snapshot
    schema = snapshot.manifest.schema
    projection = (
        project(schema, ScanOptions(columns=None, computed=bind_columns(schema, columns)))
        if isinstance(columns, dict)
        else project_taken(schema, columns)
    )
    taker = RowTaker(snapshot, projection, FileCache())
    addresses = taker.addresses.at_offsets(np.arange(40, dtype=np.uint64))
    batches = list(taker.batches(addresses, 1 << 20))
    assert batches[0].num_rows == expected
    assert sum(batch.num_rows for batch in batches) == 40
    with (
        Reader(lambda: None, 200_000).waiting(),
        pytest.raises(InvalidInputError, match="fewer columns") if "wide" in columns else nullcontext(),
    ):
        list(RowTaker(snapshot, projection, FileCache()).batches(addresses, 1 << 20))


@pytest.mark.parametrize("num_rows", [0, 1, 5000])
def test_taken_rows_stream_in_batches_as_small_as_those_of_a_scan(tmp_path, num_rows):
    """T29: a large take is cut into batches, and its rows count as memory only while they are sent."""
    table = pa.table({"n": range(5000), "blob": [bytes(2000)] * 5000})
    lance_core.write_dataset(table, str(tmp_path / "wide.lance"))
    snapshot = lance_core.dataset(str(tmp_path / "wide.lance")).snapshot
    taker = RowTaker(snapshot, project_taken(snapshot.manifest.schema, None), FileCache())
    addresses = taker.addresses.at_offsets(np.arange(num_rows, dtype=np.uint64))
    budget = MemoryBudget(1 << 20)
    rows = 0
    for run in taker.batch_runs(addresses, budget):
        assert budget.used_bytes >= run.rows.num_rows * 2000
        for batch in run.batches():
            assert batch.nbytes <= DEFAULT_BATCH_BYTES
            assert batch["n"].to_pylist() == list(range(rows, rows + batch.num_rows))
            rows += batch.num_rows
    assert rows == num_rows
    assert budget.used_bytes == 0
    stopped = taker.batch_runs(addresses, budget)
    next(stopped, None)
    stopped.close()
    assert budget.used_bytes == 0


@pytest.mark.parametrize(
    "columns",
    [["_rowid", "_rowid"], ["_rowaddr", "id", "_rowaddr", "score", "id"], ["id", "_rowid", "score"]],
    ids=repr,
)
def test_row_columns_are_returned_as_often_as_they_are_named(
    plain: lance.LanceDataset, columns: list[str]
) -> None:
    """Other columns come only once, as the reference returns them."""
    taken = lance_core.dataset(plain.uri).take([4000, 3], columns=columns)
    expected = plain.take([4000, 3], columns=columns)
    assert taken.schema == expected.schema
    assert [column.to_pylist() for column in taken] == [column.to_pylist() for column in expected]
