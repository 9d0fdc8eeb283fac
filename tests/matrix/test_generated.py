"""Generated schemas and data, nested to depth 4: written by the reference, read by us."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.oracles.checks import check_local, write_generated
from support.runs.draws import draws
from support.tables.cases import Case
from support.tables.reference import FILE_VERSIONS
from support.tables.strategies import cases

GENERATED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def _check(case: Case, folder: Path) -> None:
    path = folder / "generated.lance"
    shutil.rmtree(path, ignore_errors=True)
    written = write_generated(case, path)
    if written is not None:
        case, expected = written
        check_local(case, path, expected, of_reference=True)


@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_generated_tables_read_back(version: str, tmp_path: Path) -> None:
    @settings(GENERATED, max_examples=draws(60))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check(data.draw(cases(version)), tmp_path)

    check()


@pytest.mark.long("draws thousands of tables")
@pytest.mark.parametrize("version", FILE_VERSIONS)
def test_many_generated_tables_read_back(version: str, tmp_path: Path) -> None:
    @settings(GENERATED, max_examples=draws(5_000))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        _check(data.draw(cases(version)), tmp_path)

    check()
