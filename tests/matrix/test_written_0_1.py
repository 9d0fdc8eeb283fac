"""Every 0.1 case of the matrix that 0.1 files can keep, written by us, read by the reference and by us.

By default a sixteenth of the cases, and among them every type, nesting and size; all of them in the long run.
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
from support.tables.cases_0_1 import ROWS_PER_BATCH, kept, legacy_cases

BY_DEFAULT = 16
"""One of so many cases, beside those that have something first."""


@pytest.fixture
def dataset_path(tmp_path: Path) -> Iterator[Path]:
    """A place for one dataset, removed at once."""
    path = tmp_path / "case.lance"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _parameters() -> list[object]:
    cases = [case for case in legacy_cases() if not case.reference_fails]
    chosen = sample((case for case in cases if case.rows <= 10_000), BY_DEFAULT)
    return of_this_run(
        pytest.param(case, id=case.name, marks=[] if case.name in chosen else [pytest.mark.long])
        for case in cases
    )


@pytest.mark.parametrize("case", _parameters())
def test_the_reference_reads_what_we_wrote(case: Case, dataset_path: Path) -> None:
    """The data has no nulls and empty strings, which 0.1 cannot store; other tests check that they are
    refused.
    """
    rows_per_batch = ROWS_PER_BATCH if len(case.name) % 2 else 100
    columns = kept(pa.Table.from_batches(case.batches())).columns
    fields = [
        pa.field(field.name, column.type, field.nullable)
        for field, column in zip(case.schema, columns, strict=True)
    ]
    source = pa.Table.from_arrays(columns, schema=pa.schema(fields))

    lance_core.write_dataset(
        source, dataset_path, data_storage_version="legacy", max_rows_per_group=rows_per_batch
    )

    check_local(case, dataset_path, expected_table(case, dataset_path, source))
    assert lance.dataset(str(dataset_path)).validate() is None
