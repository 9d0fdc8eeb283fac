"""Arguments of writes that older scripts, and scripts for namespaces, give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core import FragmentMetadata, LanceFragment, Session, UnsupportedFeatureError

ROWS = pa.table({"x": [1, 2]})


def of_one_fragment(rows: pa.Table, uri: Path, **arguments: Any) -> FragmentMetadata:
    return LanceFragment.create(uri, rows, **arguments)


@pytest.mark.parametrize(("is_legacy", "version"), [(True, "0.1"), (False, "2.2")])
def test_the_older_name_of_the_file_version(is_legacy: bool, version: str, tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="use_legacy_format") as warned:
        dataset = lance_core.write_dataset(ROWS, tmp_path / "d", use_legacy_format=is_legacy)
    assert dataset.data_storage_version == version
    assert warned[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="use_legacy_format"):
        fragments = lance_core.write_fragments(ROWS, tmp_path / "f", use_legacy_format=is_legacy)
    with pytest.warns(DeprecationWarning, match="use_legacy_format") as warned:
        fragment = of_one_fragment(ROWS, tmp_path / "f", use_legacy_format=is_legacy)
    assert warned[0].filename == __file__
    assert isinstance(fragments, list)
    assert fragment.files[0].file_major_version == (0 if is_legacy else 2)
    assert fragments[0].files[0].file_major_version == (0 if is_legacy else 2)


@pytest.mark.parametrize("write", [lance_core.write_dataset, lance_core.write_fragments, of_one_fragment])
@pytest.mark.parametrize("name", ["namespace_client", "table_id"])
def test_namespaces_are_refused_by_name(write: Any, name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"'{name}'.*give a path or URL"):
        write(ROWS, tmp_path / "d", **{name: ["t"]})
    assert not (tmp_path / "d").exists()


def test_a_session_for_the_written_dataset(tmp_path: Path) -> None:
    session = Session()
    dataset = lance_core.write_dataset(ROWS, tmp_path / "d", session=session)
    assert dataset.session() is session
    appended = lance_core.write_dataset(ROWS, dataset, mode="append")
    assert appended.session() is session
    with pytest.raises(TypeError, match="session must be"):
        lance_core.write_dataset(ROWS, tmp_path / "e", session=5)  # type: ignore[arg-type]
    assert not (tmp_path / "e").exists()
