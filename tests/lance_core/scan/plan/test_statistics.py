"""Origins of statistics: 0.1 files, files of ours, earlier scans. Statistics hold for the values that are
read.
"""

from __future__ import annotations

import gc
import struct
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptFileError
from lance_core.expressions.evaluate import passing
from lance_core.expressions.parsing.sql import parse_filter
from lance_core.expressions.tree import Expression
from lance_core.file.metadata import read_file_metadata
from lance_core.proto import file_pb2
from lance_core.scan.files.cache import FileCache
from lance_core.scan.files.data_files import FragmentFiles
from lance_core.scan.plan import pruning
from lance_core.scan.plan.options import ScanOptions
from lance_core.scan.plan.projection import project
from lance_core.scan.plan.pruning import CandidateRange, Kept, Pruner
from lance_core.scan.plan.scan_plan import FragmentScan
from lance_core.scan.plan.statistics import (
    FragmentStatistics,
    Gatherer,
    KnownStatistics,
    TableStatistics,
)
from lance_core.scan.read.fragments import FragmentOpener
from lance_core.scan.run.filtering.filter_windows import _joined
from lance_core.scan.session import session_of
from lance_core.statistics.cache import StatisticsCache
from lance_core.statistics.collect import PageSummary, page_bounds
from lance_core.statistics.disk_cache import StatisticsDirectory
from lance_core.statistics.file_buffer import METADATA_KEY, PageEntry, to_buffer
from lance_core.statistics.prune import Decision, decide, kept_rows
from lance_core.storage import LocalStorage
from support.files.manifests import edit_manifest


def add_page_statistics(dataset: Path, columns: Mapping[int, Sequence[PageEntry]]) -> None:
    """Write the only data file of a dataset again, with a global buffer of statistics."""
    (path,) = (dataset / "data").iterdir()
    add_global_buffer(path, to_buffer(columns), "1")
    size = path.stat().st_size
    edit_manifest(dataset, lambda manifest: setattr(manifest.fragments[0].files[0], "file_size_bytes", size))


def add_global_buffer(path: Path, content: pa.Buffer, number: str) -> None:
    """Put a global buffer into a 2.x file, and `number` where its metadata names the one with statistics."""
    data = path.read_bytes()
    with LocalStorage(str(path.parent)).open_file(path.name) as file:
        metadata = read_file_metadata(file)
    footer = struct.unpack("<QQQIIHH4s", data[-40:])
    descriptor = file_pb2.FileDescriptor()
    descriptor.CopyFrom(metadata.descriptor)
    descriptor.schema.metadata[METADATA_KEY] = number.encode()
    out = bytearray(data[: metadata.global_buffers[0][0]])
    out += bytes(-len(out) % 64)
    buffers = [(len(out), content.size)]
    out += memoryview(content)
    out += bytes(-len(out) % 64)
    buffers.insert(0, (len(out), len(descriptor.SerializeToString())))
    out += descriptor.SerializeToString()
    start = len(out)
    moved = start - footer[0]
    out += data[footer[0] : footer[1]]
    columns_table = len(out)
    for position, size in struct.iter_unpack("<QQ", data[footer[1] : footer[1] + 16 * footer[4]]):
        out += struct.pack("<QQ", position + moved, size)
    buffers_table = len(out)
    for position, size in buffers:
        out += struct.pack("<QQ", position, size)
    out += struct.pack("<QQQIIHH4s", start, columns_table, buffers_table, 2, *footer[4:])
    path.write_bytes(out)


ROWS = 60_000
VERSIONS = ("0.1", "2.0", "2.1", "2.2")


def table(*, null_structs: bool = True) -> pa.Table:
    rng = np.random.default_rng(4)
    rising = np.arange(ROWS)
    return pa.table(
        {
            "a": pa.array(rising, mask=rng.random(ROWS) < 0.01),
            "s": pa.StructArray.from_arrays(
                [pa.array(rising * 2.5), pa.array([f"key {row:08}" for row in rising])],
                names=["x", "y"],
                mask=pa.array(rng.random(ROWS) < 0.01 * null_structs),
            ),
            "l": pa.array([[row] for row in rising]),
            "d": pa.array(["u", "v"] * (ROWS // 2)).dictionary_encode(),
        }
    )


def of(dataset: lance_core.LanceDataset, files: FileCache, *paths: tuple[str, ...]) -> FragmentStatistics:
    (fragment,) = dataset.snapshot.manifest.fragments
    return Gatherer(dataset.snapshot, fragment, paths, files).known()


def tables(statistics: FragmentStatistics) -> dict[tuple[str, ...], pa.Table]:
    return {path: facts.table for path, facts in statistics.facts.items()}


def gather(
    dataset: lance_core.LanceDataset, files: FileCache, paths: list[tuple[str, ...]], end: int = ROWS
) -> None:
    """Gather statistics of rows `[0, end)`, as a filtered scan does for the columns of its filter."""
    snapshot = dataset.snapshot
    (fragment,) = snapshot.manifest.fragments
    names = list(dict.fromkeys(path[0] for path in paths))
    projection = project(snapshot.manifest.schema, ScanOptions(columns=tuple(names)))
    reader = FragmentOpener(snapshot, projection, files).open(FragmentScan(fragment.id, 0, fragment.num_rows))
    gatherer = Gatherer(snapshot, fragment, paths, files)
    for name, column in zip(names, reader.columns, strict=True):
        for start in range(0, end, 25_000):
            rows = column.read(start, min(start + 25_000, end))
            gatherer.add(name, start, rows)


FILTERS = {
    "a > 50000": 0.2,
    "a < 100 OR a > 59900": 0.4,
    "a IS NULL": 1.0,
    "s.x BETWEEN 1000 AND 2000": 0.3,
    "s.y = 'key 00030000'": 0.3,
    "s.y LIKE 'key 0000%'": 0.5,
    "a > 10 AND s.x < 100": 0.3,
    "a < 0": 0.0,
}
"""Filters, and how much of the rows may be left."""


def check(dataset: lance_core.LanceDataset, statistics: FragmentStatistics, *, prunes: bool = True) -> None:
    """Check that no matching row is pruned, and that most other rows are."""
    rows = lance_core.LanceDataset(dataset.uri).to_table(columns=["a", "s"]).combine_chunks().to_batches()[0]
    for text, share in FILTERS.items():
        tree = parse_filter(text, dataset.schema)
        kept = np.zeros(len(rows), bool)
        for start, end in kept_rows(tree, tables(statistics), len(rows)):
            kept[start:end] = True
        assert not (np.asarray(passing(tree, rows)) & ~kept).any(), text
        assert kept.mean() <= share or not prunes, text


PATHS = [("a",), ("s", "x"), ("s", "y")]


def test_statistics_in_0_1_files(tmp_path: Path) -> None:
    lance.write_dataset(table(), tmp_path / "d", data_storage_version="0.1", max_rows_per_group=5000)
    dataset = lance_core.dataset(tmp_path / "d")
    found = of(dataset, FileCache(), *PATHS, ("l",), ("d",), ("s",), ("s", "z"), ("nothing",))
    assert tables(found).keys() == set(PATHS)
    assert found.source == "file"
    assert all(len(table) == 12 for table in tables(found).values())
    check(dataset, found, prunes=False)
    tree = parse_filter("s.x < 5000", dataset.schema)
    assert kept_rows(tree, tables(found), ROWS) == [(0, 5000)]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_second_filter_is_pruned(version: str, tmp_path: Path) -> None:
    data = table(null_structs=version != "2.0")  # which cannot hold them
    lance.write_dataset(data, tmp_path / "d", data_storage_version=version)
    dataset = lance_core.dataset(tmp_path / "d")
    directory = tmp_path / "cache"
    files = FileCache(statistics=StatisticsCache(directory=StatisticsDirectory(directory)))
    before = of(dataset, files, *PATHS)
    assert not before.are_complete
    assert before.source == ("file" if version == "0.1" else "none")
    gather(dataset, files, PATHS)
    for cache in (files, FileCache(statistics=StatisticsCache(directory=StatisticsDirectory(directory)))):
        after = of(dataset, cache, *PATHS)
        assert after.sources == dict.fromkeys(PATHS, "cache")
        assert after.are_complete
        check(dataset, after)
    assert of(dataset, FileCache(), *PATHS).source == before.source


def test_a_part_that_was_gathered_refines_the_file(tmp_path: Path) -> None:
    lance.write_dataset(table(), tmp_path / "d", data_storage_version="0.1", max_rows_per_group=30_000)
    dataset = lance_core.dataset(tmp_path / "d")
    files = FileCache()
    gather(dataset, files, [("s", "x")], end=25_000)
    found = of(dataset, files, ("s", "x"))
    assert found.source == "cache"
    assert not found.are_complete
    check(dataset, found, prunes=False)
    tree = parse_filter("s.x < 100 OR s.x > 149000", dataset.schema)
    assert kept_rows(tree, tables(found), ROWS) == [(0, 8192), (25_000, ROWS)]


def test_statistics_in_files_of_ours(tmp_path: Path) -> None:
    """Page bounds in a global buffer; the reference reads the file as before."""
    data = table().select(["a", "s"])
    lance.write_dataset(data, tmp_path / "d", data_storage_version="2.1")
    flat = [data["a"].combine_chunks(), *data["s"].combine_chunks().flatten()]
    pages = {
        number: [
            PageEntry(start, 20_000, PageSummary.of(page_bounds(column.slice(start, 20_000))), 0)
            for start in range(0, ROWS, 20_000)
        ]
        for number, column in enumerate(flat)
    }
    add_page_statistics(tmp_path / "d", pages)
    dataset = lance_core.dataset(tmp_path / "d")
    found = of(dataset, FileCache(), *PATHS)
    assert found.sources == dict.fromkeys(PATHS, "file")
    check(dataset, found, prunes=False)
    assert kept_rows(parse_filter("a > 45000", dataset.schema), tables(found), ROWS) == [(40_000, ROWS)]
    assert lance.dataset(tmp_path / "d").to_table() == data


def test_statistics_that_are_damaged(tmp_path: Path) -> None:
    """T26: a filter does not trust them; the file is named."""
    lance.write_dataset(table().select(["a"]), tmp_path / "d", data_storage_version="2.1")
    entries = [PageEntry(0, ROWS, PageSummary.of(page_bounds(table()["a"].combine_chunks())), 0)]
    add_page_statistics(tmp_path / "d", {0: entries})
    (path,) = (tmp_path / "d" / "data").iterdir()
    data = path.read_bytes()
    position = data.index(b"null_count")
    path.write_bytes(data[:position] + b"N" + data[position + 1 :])
    with pytest.raises(CorruptFileError, match=path.name):
        of(lance_core.dataset(tmp_path / "d"), FileCache(), ("a",))
    path.write_bytes(data)
    add_global_buffer(path, pa.py_buffer(b"x"), "7")
    with pytest.raises(CorruptFileError):
        of(lance_core.dataset(tmp_path / "d"), FileCache(), ("a",))


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_columns_in_several_files_and_deleted_rows(version: str, tmp_path: Path) -> None:
    """Statistics are about physical rows; every column is looked up in the file that holds it."""
    written = lance.write_dataset(table().select(["a"]), tmp_path / "d", data_storage_version=version)
    written.add_columns({"b": "a * 2"})
    written.delete("a % 7 = 3")
    dataset = lance_core.dataset(tmp_path / "d")
    files = FileCache()
    gather(dataset, files, [("a",), ("b",)])
    found = of(dataset, files, ("a",), ("b",))
    assert found.sources == {("a",): "cache", ("b",): "cache"}
    for path in tables(found):
        assert pa.compute.sum(tables(found)[path]["rows"]).as_py() == ROWS
    tree = parse_filter("a > 40000 AND b < 90000", dataset.schema)
    assert kept_rows(tree, tables(found), ROWS) == [(33_192, 49_576)]


def test_a_column_that_no_file_holds(tmp_path: Path) -> None:
    lance.write_dataset(table().select(["a"]), tmp_path / "d", data_storage_version="2.1")
    lance.dataset(tmp_path / "d").add_columns(pa.field("later", pa.int64()))
    dataset = lance_core.dataset(tmp_path / "d")
    found = of(dataset, FileCache(), ("later",))
    assert kept_rows(parse_filter("later > 5", dataset.schema), tables(found), ROWS) == []
    assert kept_rows(parse_filter("later IS NULL", dataset.schema), tables(found), ROWS) == [(0, ROWS)]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_nothing_is_gathered_where_the_file_says_as_much(version: str, tmp_path: Path) -> None:
    """Small files of ours: a page is no longer than a zone. They are pruned all the same."""
    numbers = pa.array([*range(99), None])
    words = pa.array(["u", "v"] * 50).dictionary_encode()
    data = pa.table({"a": numbers, "w": words})
    dataset = lance_core.write_dataset(data, tmp_path / "d", data_storage_version=version)
    files = FileCache()
    gather(dataset, files, [("a",), ("w",)], end=100)
    found = of(dataset, files, ("a",), ("w",))
    assert found.sources == dict.fromkeys([("a",), ("w",)], "file")
    assert kept_rows(parse_filter("a > 98", dataset.schema), tables(found), 100) == []
    assert kept_rows(parse_filter("a >= 98", dataset.schema), tables(found), 100) == [(0, 100)]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_columns_that_are_shown_differently_have_none(version: str, tmp_path: Path) -> None:
    """JSON is stored as something else than what filters see."""
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    lance.write_dataset(pa.table({"j": column}), tmp_path / "d", data_storage_version=version)
    assert not of(lance_core.dataset(tmp_path / "d"), FileCache(), ("j",)).facts


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_columns_with_dictionaries(version: str, tmp_path: Path) -> None:
    words = pa.array([f"word {row // 10_000}" for row in range(ROWS)]).dictionary_encode()
    lance.write_dataset(pa.table({"w": words}), tmp_path / "d", data_storage_version=version)
    dataset = lance_core.dataset(tmp_path / "d")
    files = FileCache()
    gather(dataset, files, [("w",)])
    found = of(dataset, files, ("w",))
    assert found.source == "cache"
    ((start, end),) = kept_rows(parse_filter("w = 'word 3'", dataset.schema), tables(found), ROWS)
    assert 20_000 < start <= 30_000
    assert 40_000 <= end < 50_000


def test_filters_of_a_process_use_the_directory(tmp_path: Path) -> None:
    lance.write_dataset(table().select(["a"]), tmp_path / "d", data_storage_version="2.2")
    lance_core.set_cache_directory(tmp_path / "cache")
    try:
        for _ in range(2):
            found = lance_core.dataset(tmp_path / "d").to_table(filter="a BETWEEN 100 AND 200")
            assert set(found["a"].to_pylist()) <= set(range(100, 201))
        assert len(list((tmp_path / "cache").glob("v1/*/*.statistics"))) == 1
    finally:
        lance_core.set_cache_directory(None)


def test_columns_of_later_conditions_are_learnt_of_too(tmp_path: Path) -> None:
    """Columns of later conditions are read if many rows passed earlier ones: the statistics have no gap."""
    rng = np.random.default_rng(1)
    data = pa.table({"f": rng.random(ROWS).astype("f4"), "a": np.arange(ROWS)})
    lance.write_dataset(data, tmp_path / "d", data_storage_version="2.1")
    dataset = lance_core.dataset(tmp_path / "d")
    text = "f > 0.5 AND a < 1000"
    expected = lance.dataset(tmp_path / "d").to_table(filter=text)
    assert dataset.to_table(filter=text) == expected
    assert dataset.to_table(filter=text) == expected
    found = of(dataset, session_of(dataset.snapshot).files, ("a",))
    assert kept_rows(parse_filter("a < 1000", dataset.schema), tables(found), ROWS) == [(0, 8192)]


def test_segments_with_few_rows_between_are_read_as_one() -> None:
    """Rows between the candidate ranges are filtered by all conditions, so that they are dropped again."""
    near = [
        CandidateRange(0, 10, (1,)),
        CandidateRange(12, 20, ()),
        CandidateRange(20, 30, (0,)),
        CandidateRange(40, 50, ()),
    ]
    assert _joined(near, 5, (0, 1)) == [
        CandidateRange(0, 20, (0, 1)),
        CandidateRange(20, 30, (0,)),
        CandidateRange(40, 50, ()),
    ]
    assert _joined(near, 11, (0, 1)) == [CandidateRange(0, 20, (0, 1)), CandidateRange(20, 50, (0, 1))]
    assert _joined(near, 0, (0, 1)) == near
    assert _joined([], 5, ()) == []


def test_statistics_of_fragments_are_kept_until_a_scan_adds_some(tmp_path: Path) -> None:
    """Another version, other columns, and other fragments have statistics of their own."""
    lance.write_dataset(table(), str(tmp_path), data_storage_version="2.1")
    dataset = lance_core.dataset(tmp_path)
    files = FileCache()

    def known(dataset: lance_core.LanceDataset, *paths: tuple[str, ...], count: int = 1) -> TableStatistics:
        snapshot = dataset.snapshot
        fragments = snapshot.manifest.fragments[:count]
        opened = partial(FragmentFiles, snapshot, files=files)
        return KnownStatistics(snapshot, paths, files).of_all(fragments, opened, is_remote=False)

    before = known(dataset, ("a",))
    assert before.sources == ("none",)
    assert known(lance_core.dataset(tmp_path), ("a",)) is before
    assert known(dataset, ("a",), ("s", "x")) is not before
    gather(dataset, files, [("a",)])
    after = known(dataset, ("a",))
    assert after.sources == ("cache",)
    assert known(dataset, ("a",)) is after
    dataset.insert(table())
    newer = known(dataset, ("a",), count=2)
    assert newer.sources == ("cache", "file")
    assert newer.starts == (0, ROWS, 2 * ROWS)
    assert known(dataset, ("a",), count=1).starts == (0, ROWS)
    dataset.delete("a > 70000")
    assert known(dataset, ("a",), count=2) is not newer


def test_answers_of_statistics_are_kept_until_a_scan_adds_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers repeat filters. Answers with many ranges of rows are computed each time."""
    dataset = lance_core.write_dataset(pa.table({"a": range(ROWS)}), tmp_path)
    snapshot, files, asked = dataset.snapshot, FileCache(), []

    def noted(*arguments: object) -> Decision:
        asked.append(arguments)
        return decide(*arguments)  # type: ignore[arg-type]

    def kept(condition: Expression) -> Kept:
        return Pruner(snapshot, condition, files).keep(snapshot.manifest.fragments[0])

    monkeypatch.setattr(pruning, "decide", noted)
    first, other = (parse_filter(f"a < {limit}", dataset.schema) for limit in (1000, ROWS))
    before = kept(first)
    assert kept(first) == before
    assert len(asked) == 1
    assert kept(other).candidates == (CandidateRange(0, ROWS, ()),)
    assert len(asked) == 2
    gather(dataset, files, [("a",)])
    assert kept(first).candidates[-1].end < before.candidates[-1].end
    assert len(asked) == 3
    monkeypatch.setattr(pruning, "_MOST_KEPT_RANGES", 0)
    again = parse_filter("a < 1000", dataset.schema)
    assert kept(again) == kept(again) == kept(first)
    assert len(asked) == 5


def test_answers_of_statistics_keep_no_filter_and_no_statistics(tmp_path: Path) -> None:
    """A filter with many values is large, and each version has statistics of its own."""
    dataset = lance_core.write_dataset(pa.table({"a": range(ROWS)}), tmp_path)
    snapshot, files = dataset.snapshot, FileCache()
    fragment = snapshot.manifest.fragments[0]
    condition = parse_filter("a < 1000", dataset.schema)
    Pruner(snapshot, condition, files).keep(fragment)
    opened = partial(FragmentFiles, snapshot, files=files)
    known = KnownStatistics(snapshot, (("a",),), files).of_all([fragment], opened, is_remote=False)
    assert (id(known), id(condition)) in pruning._decisions
    kept = [weakref.ref(condition), weakref.ref(known)]
    del condition, known, files, opened
    gc.collect()
    assert [each() for each in kept] == [None, None]


def test_a_process_keeps_few_answers_of_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = lance_core.write_dataset(pa.table({"a": range(ROWS)}), tmp_path)
    monkeypatch.setattr(pruning, "_MOST_KEPT", 5)
    monkeypatch.setattr(pruning, "_decisions", {})
    conditions = [parse_filter(f"a < {limit}", dataset.schema) for limit in range(12)]
    for version in range(3):
        snapshot, files = dataset.snapshot, FileCache()
        for limit, condition in enumerate(conditions):
            kept = Pruner(snapshot, condition, files).keep(snapshot.manifest.fragments[0])
            assert sum(candidate.num_rows for candidate in kept.candidates) >= limit, version
            assert len(pruning._decisions) <= 5
        dataset.insert(pa.table({"a": range(ROWS)}))
