"""Every 0.1 case of the matrix, written by the reference: equal in type and value bits to what it reads.

By default a sixteenth of the cases, and among them every type and nesting; all of them in the long run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

import lance_core
from lance_core.proto import table_pb2
from support.files.manifests import edit_manifest, newest_manifest, read_message
from support.oracles.checks import check_local, expected_table
from support.oracles.comparison import assert_tables_equal
from support.runs.products import of_this_run
from support.servers.server import RunningServer, serving
from support.tables.cases import Case, sample
from support.tables.cases_0_1 import VERSION, legacy_cases, write_legacy
from support.tables.reference import read_reference, write_reference

BY_DEFAULT = 16
"""One of so many cases, beside those that have something first."""
STREAMED = ("leaf-bool-2049", "leaf-string-2049", "nested-list_struct_list-string-3000")


@pytest.fixture
def dataset_path(tmp_path: Path) -> Iterator[Path]:
    """A place for one dataset, removed at once."""
    path = tmp_path / "case.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _parameters() -> list[object]:
    chosen = sample(legacy_cases(), BY_DEFAULT)
    return of_this_run(
        pytest.param(case, id=case.name, marks=[] if case.name in chosen else [pytest.mark.long])
        for case in legacy_cases()
    )


def _case(name: str) -> Case:
    return next(case for case in legacy_cases() if case.name == name)


@pytest.mark.parametrize("case", _parameters())
def test_reads_what_the_reference_wrote(case: Case, dataset_path: Path) -> None:
    """T22: values come back as the format keeps them, which is what the reference reads."""
    stored = write_legacy(case, dataset_path)
    check_local(case, dataset_path, expected_table(case, dataset_path, stored))


@pytest.mark.parametrize("rows_per_batch", [pytest.param(1, marks=pytest.mark.long), 7, 64])
@pytest.mark.parametrize(
    "name", ["leaf-bool-2049", "leaf-string-2049", "nested-list_fsl-bool-325", "nested-fsl_fsl-bool-325"]
)
def test_batches_of_any_size(name: str, rows_per_batch: int, dataset_path: Path) -> None:
    """Bits of neighbouring batches do not meet at bytes."""
    case = _case(name)
    stored = write_legacy(case, dataset_path, rows_per_batch)
    check_local(case, dataset_path, expected_table(case, dataset_path, stored))


def test_tables_without_rows(tmp_path: Path) -> None:
    write_reference(pa.table({"a": pa.array([], pa.int32())}), tmp_path / "a", VERSION)
    assert lance_core.dataset(tmp_path / "a").to_table().equals(pa.table({"a": pa.array([], pa.int32())}))


def test_deletions_and_appended_fragments(tmp_path: Path) -> None:
    """Rows of several batches and files, some deleted: all, ranges, addresses, and single fragments."""
    path = tmp_path / "d"
    case = _case("leaf-string-2049")
    source = pa.Table.from_batches(case.batches()).append_column("id", pa.array(range(case.rows)))
    write_reference(source, path, VERSION, max_rows_per_file=700, max_rows_per_group=100)
    write_reference(source, path, VERSION, mode="append")
    lance.dataset(path).delete("id % 7 = 3 or (id > 300 and id < 450)")
    expected, ours = read_reference(path), lance_core.dataset(path)
    assert ours.count_rows() == expected.num_rows
    assert_tables_equal(expected, ours.to_table())
    assert_tables_equal(expected.slice(1111, 900), ours.to_table(offset=1111, limit=900))
    arguments = {"columns": ["id"], "with_row_id": True, "with_row_address": True}
    assert_tables_equal(lance.dataset(path).to_table(**arguments), ours.to_table(**arguments))
    for fragment in lance.dataset(path).get_fragments():
        assert_tables_equal(
            fragment.to_table(), ours.get_fragment(fragment.fragment_id).to_table(), label=str(fragment)
        )


def test_blobs(tmp_path: Path) -> None:
    """0.1 files hold blobs like other bytes; descriptors say where. The reference cannot describe them."""
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    contents = [b"abc", None, b"", *(bytes([n % 251]) * (n % 40) for n in range(300))]
    table = pa.table([pa.array(contents, pa.large_binary())], schema=pa.schema([field]))
    write_reference(table, tmp_path / "d", VERSION, max_rows_per_group=70)
    ours, reference = lance_core.dataset(tmp_path / "d"), lance.dataset(tmp_path / "d")
    for rows in ({}, {"offset": 60, "limit": 100}):
        expected = reference.to_table(blob_handling="all_binary", **rows)
        assert_tables_equal(expected, ours.scanner(blob_handling="all_binary", **rows).to_table())
    (file,) = (tmp_path / "d" / "data").iterdir()
    data = file.read_bytes()
    described = ours.to_table()["b"].to_pylist()
    kept = [content or None for content in contents]
    assert [d and data[d["position"] : d["position"] + d["size"]] for d in described] == kept
    blobs = ours.take_blobs("b", indices=[0, 1, 200])
    assert [blob and blob.read() for blob in blobs] == [b"abc", None, kept[200]]


@pytest.mark.parametrize("numbers", [(0, 3), (2, 0)])
def test_tables_that_mix_file_versions(numbers: tuple[int, int], tmp_path: Path) -> None:
    """Around 0.16 tables said 0.1 while some of their files, or all, were 2.0 (table format, 2.6)."""
    old, new = tmp_path / "old", tmp_path / "new"
    table = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"], "p": [{"q": 1.5}] * 3, "l": [[1], [], [2, 3]]})
    write_reference(table, old, VERSION)
    write_reference(table, new, "2.0")
    (file,) = (new / "data").iterdir()
    shutil.copy(file, old / "data")
    fragment = read_message(newest_manifest(new)).fragments[0]
    fragment.id = 1
    fragment.files[0].file_major_version, fragment.files[0].file_minor_version = numbers

    def add_fragment(manifest: table_pb2.Manifest) -> None:
        manifest.fragments.append(fragment)
        manifest.max_fragment_id = 1

    edit_manifest(old, add_fragment)
    ours = lance_core.dataset(old)
    assert ours.data_storage_version == VERSION
    expected = read_reference(old)
    assert_tables_equal(expected, ours.to_table())
    assert_tables_equal(read_reference(old, ["p.q", "l"]), ours.to_table(columns=["p.q", "l"]))
    # The reference infers one version for the whole table here and refuses it.
    edit_manifest(old, lambda manifest: manifest.ClearField("data_format"))
    assert_tables_equal(expected, lance_core.dataset(old).to_table())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("served")
    for number, name in enumerate(STREAMED):
        write_legacy(_case(name), folder / "root" / f"case{number}.lance")
    with serving(folder / "root", folder / "log") as server:
        yield server


@pytest.mark.parametrize("number", range(len(STREAMED)))
def test_streams_what_the_reference_wrote(server: RunningServer, number: int) -> None:
    expected = read_reference(server.log_file.parent / "root" / f"case{number}.lance")
    offset, limit = expected.num_rows // 3, expected.num_rows // 2
    for scan, rows in (({}, expected), ({"offset": offset, "limit": limit}, expected.slice(offset, limit))):
        command = json.dumps({"scan": {"dataset": f"case{number}", **scan}}).encode()
        with server.client() as client:
            assert_tables_equal(rows, client.do_get(flight.Ticket(command)).read_all())
