"""Every 2.0 case of the matrix, written by us, read by the reference and by us: equal in type and value.

By default every type, nesting, option and size is written, and a sixteenth of the other cases; all of them in
the long run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from support.oracles.checks import check_local, expected_table
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
def test_the_reference_reads_what_we_wrote(case: Case, dataset_path: Path) -> None:
    batches = case.batches()
    page_bytes = 1 if case.pages > 1 else None  # every batch is a page of its own

    lance_core.write_dataset(
        pa.RecordBatchReader.from_batches(case.schema, batches),
        dataset_path,
        data_storage_version="2.0",
        max_page_bytes=page_bytes,
    )

    expected = expected_table(case, dataset_path, pa.Table.from_batches(batches))
    check_local(case, dataset_path, expected)
    assert lance.dataset(str(dataset_path)).validate() is None
