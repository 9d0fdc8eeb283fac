"""Datasets that older releases of the reference wrote read as those releases read them.

`make_fixtures.py` writes them; `fixtures/PROVENANCE.md` says what each of them is for.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lance_core.api.dataset import dataset
from support.oracles.comparison import assert_tables_equal
from support.runs.each_case import each_case
from support.tables.reference import read_reference

FIXTURES = Path(__file__).parent / "fixtures"
DATASETS = sorted(FIXTURES.glob("*/*.lance"))
MISREAD_TODAY = {"0.7.5-0.1-merged"}
"""The current release cannot read the page tables that releases before 0.8 wrote for added columns."""


def _expected(path: Path) -> pa.Table:
    with pa.ipc.open_stream(path.with_suffix(".arrows")) as stream:
        return stream.read_all()


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@each_case("path", DATASETS)
def test_reads_what_the_release_read(path: Path) -> None:
    """T22: no release's files are misread."""
    expected = _expected(path)
    found = dataset(str(path)).to_table()
    assert_tables_equal(expected, found, label=_name(path))
    found.validate(full=True)


@pytest.mark.parametrize("path", [p for p in DATASETS if _name(p) not in MISREAD_TODAY], ids=_name)
def test_reads_what_the_current_release_reads(path: Path) -> None:
    """T22: schema and values as the reference reports them today."""
    opened = dataset(str(path))
    expected = read_reference(path)
    assert_tables_equal(expected, opened.to_table(), label=_name(path))
    found = opened.to_table(columns=["point.label", "id"], offset=50, limit=100)
    expected = read_reference(path, columns=["point.label", "id"]).slice(50, 100)
    assert_tables_equal(expected, found, label=f"{_name(path)}, rows from 50")


@pytest.mark.parametrize("path", DATASETS, ids=_name)
def test_reads_every_version(path: Path) -> None:
    """Older versions still have the rows that were deleted later."""
    opened = dataset(str(path))
    counts = [dataset(str(path), version=v["version"]).to_table().num_rows for v in opened.versions()]
    assert counts == [110, 220] + [_expected(path).num_rows] * (len(counts) - 2)


def test_every_release_is_there() -> None:
    """Every file version of every release that the script knows has a dataset."""
    found = {_name(path) for path in DATASETS}
    assert found >= {
        f"{release}-{version}"
        for release, versions in (
            ("0.3.19", ("0.1",)),
            ("0.7.5", ("0.1", "0.1-merged")),
            ("0.10.0", ("0.1", "0.1-merged")),
            ("0.12.3", ("0.1", "2.0")),
            ("0.20.0", ("0.1", "2.0")),
            ("0.30.0", ("0.1", "2.0")),
            ("8.0.1", ("0.1", "2.0", "2.1", "2.2")),
        )
        for version in versions
    }
