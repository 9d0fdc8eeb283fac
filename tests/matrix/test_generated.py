"""Generated schemas and data, nested to depth 4: written by the reference, read by us."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from support.cases import Case
from support.checks import check_local, expected_table, write_case
from support.comparison import TableDifferenceError
from support.reference import FILE_VERSIONS, PanicException
from support.strategies import cases

GENERATED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def _check(case: Case, folder: Path) -> None:
    """What the reference cannot write is left out; where it misreads its file, the source is the truth."""
    path = folder / "generated.lance"
    shutil.rmtree(path, ignore_errors=True)
    try:
        source = write_case(case, case.versions[0], path)
    except (OSError, pa.ArrowInvalid, PanicException) as error:
        event(f"the reference does not write it: {type(error).__name__}")
        return
    try:
        expected = expected_table(case, path, source)
    except (OSError, pa.ArrowInvalid, PanicException, TableDifferenceError) as error:
        event(f"the reference does not read it: {type(error).__name__}")
        case = replace(case, reference_fails=str(error))
        expected = expected_table(case, path, source)
    check_local(case, path, expected)


@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_generated_tables_read_back(version: str, tmp_path: Path) -> None:
    @settings(GENERATED, max_examples=150)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check(data.draw(cases(version)), tmp_path)

    check()


@pytest.mark.long
@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_many_generated_tables_read_back(version: str, tmp_path: Path) -> None:
    @settings(GENERATED, max_examples=5_000)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check(data.draw(cases(version)), tmp_path)

    check()
