"""Every 2.0 case of the matrix, written by the reference and read locally: equal in type and value bits.

By default every type, nesting, option and size is read, and a sixteenth of the other cases; all of them in
the long run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.oracles.checks import check_local, expected_table, write_case
from support.runs.products import of_this_run
from support.tables.cases import Case, sample
from support.tables.cases_2_0 import cases_2_0

BY_DEFAULT = 16
"""One of so many cases, beside those that have something first."""


@pytest.fixture
def dataset_path(tmp_path: Path) -> Iterator[Path]:
    """A place for one dataset, removed at once."""
    path = tmp_path / "case.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _parameters() -> list[object]:
    chosen = sample(cases_2_0(), BY_DEFAULT)
    return of_this_run(
        pytest.param(case, id=case.name, marks=[] if case.name in chosen else [pytest.mark.long])
        for case in cases_2_0()
    )


@pytest.mark.parametrize("case", _parameters())
def test_reads_what_the_reference_wrote(case: Case, dataset_path: Path) -> None:
    """T22: values of 2.0 files come back as they were written."""
    source = write_case(case, "2.0", dataset_path)
    expected = expected_table(case, dataset_path, source)
    check_local(case, dataset_path, expected)
