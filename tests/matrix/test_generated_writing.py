"""Generated schemas and data, written by us in files and pages of any size, read by both libraries."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.errors import InvalidInputError
from support.oracles.checks import as_stored, check_local, expected_table, write_case
from support.oracles.comparison import TableDifferenceError, assert_tables_equal
from support.runs.draws import draws
from support.tables.cases import Case, Column
from support.tables.cases_2_0 import present
from support.tables.reference import PANICS
from support.tables.strategies import cases

GENERATED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
VERSIONS = ("2.0", "2.1", "2.2")


@st.composite
def _written(draw: st.DrawFn, version: str) -> tuple[Case, dict[str, int | None]]:
    case = draw(cases(version))
    if version == "2.0":  # which keeps no null structs
        columns = tuple(Column(present(column.field), column.spec) for column in case.columns)
        case = replace(case, columns=columns)
    limits = {
        "max_page_bytes": draw(st.sampled_from((None, 1, 50_000))),
        "max_rows_per_file": draw(st.sampled_from((1 << 20, 999))),
    }
    return case, limits


def _check(version: str, case: Case, limits: dict[str, int | None], folder: Path) -> None:
    path = folder / "generated.lance"
    shutil.rmtree(path, ignore_errors=True)
    batches = case.batches()
    reader = pa.RecordBatchReader.from_batches(case.schema, batches)
    try:
        lance_core.write_dataset(reader, path, data_storage_version=version, **limits)  # type: ignore[arg-type]
    except InvalidInputError as error:
        if "no free index for null" not in str(error):
            raise
        event("a dictionary without room for null")
        return
    source = as_stored(pa.Table.from_batches(batches), path)
    check_local(replace(case, reference_fails="asked below"), path, source)
    try:
        found = lance.dataset(str(path)).to_table()
    except (pa.ArrowInvalid, *PANICS) as error:
        if _reads_its_own(version, case, folder):
            raise
        event(f"the reference does not read its own either: {str(error)[:60]}")
        return
    assert_tables_equal(source, found, label=f"{case.name}: reference")


def _reads_its_own(version: str, case: Case, folder: Path) -> bool:
    """Return whether the reference reads the same rows from pages of its own."""
    path = folder / "reference.lance"
    shutil.rmtree(path, ignore_errors=True)
    try:
        expected_table(case, path, write_case(replace(case, pages=max(case.pages, 2)), version, path))
    except (OSError, pa.ArrowInvalid, *PANICS, TableDifferenceError):
        return False
    return True


@pytest.mark.parametrize("version", VERSIONS)
def test_generated_tables_are_read_by_the_reference(version: str, tmp_path: Path) -> None:
    # This test draws equal tables in each run; the long test goes on looking.
    @settings(GENERATED, max_examples=draws(15), derandomize=True)
    @given(_written(version))
    def check(written: tuple[Case, dict[str, int | None]]) -> None:
        _check(version, *written, tmp_path)

    check()


@pytest.mark.long("draws thousands of tables")
@pytest.mark.parametrize("version", VERSIONS)
def test_many_generated_tables_are_read_by_the_reference(version: str, tmp_path: Path) -> None:
    @settings(GENERATED, max_examples=draws(3_000))
    @given(_written(version))
    def check(written: tuple[Case, dict[str, int | None]]) -> None:
        _check(version, *written, tmp_path)

    check()
