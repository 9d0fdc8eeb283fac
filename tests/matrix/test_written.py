"""Cases of the matrix written by us as 2.1 and 2.2: the reference and we read them, equal in type and value.

By default every type is written once, and a part of the other cases; all of them in the long run.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
from support.oracles.checks import check_local, expected_table, write_generated
from support.oracles.comparison import assert_tables_equal
from support.runs.draws import draws
from support.runs.products import of_this_run
from support.tables.cases import Case, all_cases
from support.tables.strategies import cases

VERSIONS = ("2.1", "2.2")
BY_DEFAULT = 16
"""One of so many cases."""
ALWAYS = ("2.2-empty-binary",)
GENERATED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@pytest.fixture
def dataset_path(tmp_path: Path) -> Iterator[Path]:
    """A place for one dataset, removed at once."""
    path = tmp_path / "case.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _parameters() -> list[object]:
    parameters = []
    for case in all_cases():
        for version in sorted(set(case.versions) & set(VERSIONS)):
            name = f"{version}-{case.name}"
            always = case.has_a_type_first or name.startswith(ALWAYS)
            is_long = case.long or (zlib.crc32(name.encode()) % BY_DEFAULT and not always)
            marks = [pytest.mark.long] if is_long else []
            parameters.append(pytest.param(case, version, id=name, marks=marks))
    return of_this_run(parameters)


def _write(case: Case, version: str, path: Path) -> pa.Table:
    batches = case.batches()
    page_bytes = batches[0].nbytes // len(case.columns) + 1 if case.pages > 1 else None
    lance_core.write_dataset(
        pa.RecordBatchReader.from_batches(case.schema, batches),
        path,
        data_storage_version=version,
        max_page_bytes=page_bytes,
    )
    return pa.Table.from_batches(batches)


def _check(case: Case, version: str, path: Path) -> None:
    source = _write(case, version, path)
    expected = expected_table(case, path, source)
    check_local(case, path, expected)


def _check_generated(case: Case, version: str, folder: Path) -> None:
    """Check a generated case; a case that the reference cannot read from its own file is not required of
    ours.
    """
    theirs, ours = folder / "theirs.lance", folder / "ours.lance"
    for path in (theirs, ours):
        shutil.rmtree(path, ignore_errors=True)
    written = write_generated(case, theirs)
    case = replace(case, reference_fails="does not write it") if written is None else written[0]
    source = _write(case, version, ours)
    check_local(case, ours, expected_table(case, ours, source))


@pytest.mark.parametrize(("case", "version"), _parameters())
def test_the_reference_reads_what_we_wrote(case: Case, version: str, dataset_path: Path) -> None:
    _check(case, version, dataset_path)
    assert lance.dataset(str(dataset_path)).validate() is None


@pytest.mark.parametrize("version", VERSIONS)
def test_generated_tables_are_read_back(version: str, tmp_path: Path) -> None:
    # This test draws equal tables in each run; the long test goes on looking.
    @settings(GENERATED, max_examples=draws(50), derandomize=True)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check_generated(data.draw(cases(version)), version, tmp_path)

    check()


@pytest.mark.long("draws thousands of tables")
@pytest.mark.parametrize("version", VERSIONS)
def test_many_generated_tables_are_read_back(version: str, tmp_path: Path) -> None:
    @settings(GENERATED, max_examples=draws(3_000))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check_generated(data.draw(cases(version)), version, tmp_path)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_reference_does_with_our_files(version: str, tmp_path: Path) -> None:
    """The reference takes, filters, deletes and compacts rows of tables that we wrote."""
    case = next(case for case in all_cases() if case.name.startswith("nested-list_struct_list-int32-1025"))
    path = tmp_path / "case.lance"
    source = _write(case, version, path)
    numbers = pa.table({**{name: source[name] for name in source.schema.names}, "id": range(source.num_rows)})
    shutil.rmtree(path)
    for start in range(0, numbers.num_rows, 300):
        lance_core.write_dataset(
            numbers.slice(start, 300),
            path,
            data_storage_version=version,
            mode="append" if start else "create",
        )
    reference = lance.dataset(str(path))
    rows = [1_000, 0, 299, 300, 301, 7]
    assert_tables_equal(reference.schema.empty_table(), numbers.schema.empty_table().cast(reference.schema))
    assert reference.take(rows).to_pylist() == numbers.take(rows).to_pylist()
    assert reference.to_table(filter="id % 97 = 3")["id"].to_pylist() == list(range(3, numbers.num_rows, 97))
    reference.delete("id % 3 = 0")
    reference.optimize.compact_files()
    kept = numbers.filter(pa.array([x % 3 != 0 for x in range(numbers.num_rows)]))
    assert lance.dataset(str(path)).to_table().to_pylist() == kept.to_pylist()
    assert lance_core.dataset(str(path)).to_table().to_pylist() == kept.to_pylist()
